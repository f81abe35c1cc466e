"""Pages of the board: they say what the service says, escape what strangers name, and have no scripts."""

from __future__ import annotations

import base64
import re
from hashlib import sha256

import numpy as np
import pytest

from helpers.asgi import Caller
from helpers.dashboards import BusyService
from helpers.strict_html import Page
from peekrank.service.api.endpoints import application
from peekrank.service.api.keys import Key, Keys, new_key
from peekrank.service.api.messages import Interval, Minute, SlotReply
from peekrank.service.api.openapi import openapi
from peekrank.service.api.problems import PROBLEM_TYPES
from peekrank.service.api.routes import ENDPOINTS
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.core.activity import Day
from peekrank.service.dashboard import charts, pages

PATHS = ["/", "/?live=no", "/dashboard/home", "/dashboard/search?live=no", "/problems/closed", "/docs"]


@pytest.fixture
def call() -> Caller:
    configure_logging("critical")
    return Caller(application(BusyService()))


@pytest.mark.parametrize("path", PATHS)
def test_pages_are_well_formed_and_load_nothing(call: Caller, path: str) -> None:
    reply = call("GET", path)
    assert reply.status_code == 200
    assert Page(reply.text).tags["main"] == 1
    assert "<script" not in reply.text
    assert not re.findall(r'(?:src|href)="(?!/|#|\?)', reply.text)
    style = re.search(r"<style>(.*)</style>", reply.text, re.S)
    assert style is not None
    digest = base64.b64encode(sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in reply.headers["content-security-policy"]
    assert " style=" not in reply.text


def test_the_reference_has_every_call_body_and_problem(call: Caller) -> None:
    page = call("GET", "/docs").text
    ids = set(re.findall(r'id="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= ids
    assert {f"call-{endpoint.name}" for endpoint in ENDPOINTS} <= ids
    assert set(openapi()["components"]["schemas"]) <= ids
    for kind in set(re.findall(r'href="/problems/([^"]+)"', page)):
        assert kind in PROBLEM_TYPES
    assert "Undefined" not in page
    assert "`" not in page


def test_the_overview_tells_the_state_of_the_log_and_of_each_slot(call: Caller) -> None:
    page = call("GET", "/").text
    for said in ("1,234,567", "987.7 MB", "23 %", "3.1 %", "0.490 to 0.530", "Fewer people answer", "What to do:"):
        assert said in page
    assert 'href="/dashboard/home"' in page
    assert 'href="/dashboard/search"' in page


def test_a_slot_tells_of_its_learners_and_items(call: Caller) -> None:
    page = call("GET", "/dashboard/home").text
    for said in (
        "challenger",
        '<th scope="col" class="n">score</th>',
        '<td class="n">12.5</td>',
        "0.450 to 0.510",
        "155 items; the table has the 100",
        "shadow mode: the app shows its own order",
        "Rules: explore at most 10 % of lists; &lt;b&gt;bold&lt;/b&gt; at position 2 · relaxed in 1,208 lists",
        "retired",
        "rising",
        "falling",
    ):
        assert said in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "<b>" not in page


def test_a_slot_says_why_items_stand_where_they_stand_and_how_it_went(call: Caller) -> None:
    page = call("GET", "/dashboard/home?live=no&key=vegan").text
    for said in (
        "Current ranking for “vegan”",
        '<td class="n"><strong>0.900</strong></td>',
        '<td class="n">+0.200</td>',
        '<td class="n">−0.014</td>',
        '<input name="key" value="vegan"',
        "and 135 more",
        "Lists per day",
        "Lists per week",
        "34 days ago",
    ):
        assert said in page
    plain = call("GET", "/dashboard/home").text
    assert "<form" not in plain  # a page that loads itself again would drop what is typed
    assert 'href="?live=no#ranking"' in plain
    assert 'href="?key=%3Cb%3Ebold%3C%2Fb%3E#ranking"' in plain
    unknown = call("GET", "/dashboard/home?live=no&key=<i>").text
    assert "No list had the key “&lt;i&gt;”" in unknown
    assert 'href="?key=%3Ci%3E">paused' in unknown
    nothing = call("GET", "/dashboard/search").text
    assert "Trend" not in nothing
    assert 'id="ranking"' not in nothing


def test_a_trend_has_a_column_for_each_period_and_its_interval() -> None:
    today = 20_000
    days = [Day(today - 40, 9, 0, 9, 9.0, 9.0), Day(today - 1, 8, 0, 4, 2.0, 2.0), Day(today, 3)]
    by_day, by_week = pages.trends(days, today * 86400 + 5.0)
    assert (by_day.unit, by_day.columns, by_day.busiest) == ("day", 35, 8)
    assert (by_week.unit, by_week.columns, by_week.busiest) == ("week", 52, 11)  # day 20,000 is a Wednesday
    (period,) = [one for one in charts.periods(days, today * 86400.0, 1, 35) if one.answered]
    grades = np.array([1.0, 1.0, 0.0, 0.0])
    half = 1.96 * grades.std(ddof=1) / 2
    assert period[3:] == pytest.approx((0.5, 0.5 - half, 0.5 + half))
    assert "0.500 in the first, 0.500 in the last" in by_day.values
    assert pages.trends(days[-1:], today * 86400.0) == []


def test_a_page_loads_itself_again_unless_told_not_to(call: Caller) -> None:
    assert '<meta http-equiv="refresh" content="5">' in call("GET", "/").text
    still = call("GET", "/?live=no").text
    assert "refresh" not in still
    assert 'href="/dashboard/home?live=no"' in still


def test_a_service_that_is_not_ready_says_why() -> None:
    service = BusyService()
    service.reason = "the log is read: 10 of 20 records"
    page = Caller(application(service))("GET", "/").text
    assert "Not ready" in page
    assert service.reason in page
    assert Caller(application(service))("GET", "/dashboard/home").status_code == 503
    assert "peekrank_log_sequence" not in Caller(application(service))("GET", "/metrics").text


def test_a_follower_can_be_looked_at() -> None:
    service = BusyService()
    service.reason, service.follows = "another process owns the log", True
    call = Caller(application(service))
    page = call("GET", "/").text
    assert "On standby" in page
    assert "/dashboard/home" in page
    assert call("GET", "/dashboard/home").status_code == 200
    assert call("GET", "/v1/slots").status_code == 200
    assert "peekrank_ready 0.0" in call("GET", "/metrics").text
    assert call("GET", "/readyz").status_code == 503


def test_every_problem_has_a_page(call: Caller) -> None:
    for kind, problem in PROBLEM_TYPES.items():
        assert problem.title in call("GET", f"/problems/{kind}").text
    assert call("GET", "/problems/nothing").status_code == 404


def test_the_dashboard_needs_a_reader_where_there_are_keys() -> None:
    (key, kept), (narrow, other) = new_key("eye"), new_key("narrow")
    keys = Keys([Key("eye", "reader", kept), Key("narrow", "reader", other, frozenset({"search"}))])
    app = application(BusyService(), keys)
    refused = Caller(app)("GET", "/")
    assert refused.status_code == 401
    assert "Basic" in refused.headers["www-authenticate"]
    browser = Caller(app, authorization="Basic " + base64.b64encode(f":{key}".encode()).decode())
    assert "/dashboard/home" in browser("GET", "/").text
    few = Caller(app, authorization=f"Bearer {narrow}")
    assert "/dashboard/home" not in few("GET", "/").text
    assert few("GET", "/dashboard/home").status_code == 404
    assert Caller(app)("GET", "/problems/no-key").status_code == 200


def test_a_banner_and_another_clock() -> None:
    app = application(BusyService(), clock=lambda: 0.0, banner="Simulated <visitors>")
    page = Caller(app)("GET", "/").text
    assert "Simulated &lt;visitors&gt;" in page
    assert 'class="ranked"' not in page  # all of that is in the future


def test_shares_are_of_what_they_should_be() -> None:
    card = pages.card(
        SlotReply("home", "x", "dcg", 1, ranked=50, answered=30, due=40, due_answered=10, explored=5), 0.0
    )
    assert (card.response_rate, card.explored_share) == (0.25, 0.1)
    empty = pages.card(SlotReply("home", "x", "dcg", 1), 0.0)
    assert (empty.response_rate, empty.explored_share) == (None, None)


def test_bars_stand_in_their_minute() -> None:
    svg = charts.traffic([Minute(0.0, 4, 1), Minute(59 * 60.0, 2, 2), Minute(-60.0, 99)], 59 * 60 + 30.0)
    assert re.findall(r'class="(\w+)" x="([\d.]+)" y="([\d.]+)"', svg) == [
        ("ranked", "0.5", "0.0"),
        ("answered", "0.5", "90.0"),
        ("ranked", "590.5", "60.0"),
        ("answered", "590.5", "60.0"),
    ]


def test_the_curve_stays_within_the_picture() -> None:
    minutes = [Minute(60.0 * i, value=(-1) ** i * i) for i in range(60)]
    svg = charts.values(minutes, Interval(0.0, -80.0, 80.0, 9), 59 * 60.0)
    heights = [float(pair.split(",")[1]) for pair in re.findall(r'points="([^"]*)"', svg)[0].split()]
    assert len(heights) == 60
    assert 0 <= min(heights) < max(heights) <= charts.HEIGHT
