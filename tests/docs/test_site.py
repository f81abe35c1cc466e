"""The documentation site: links and anchors, the navigation, and references that are made from the code."""

from __future__ import annotations

import html
import importlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import markdown
import pytest
from markdown_it import MarkdownIt
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.config.defaults import MkDocsConfig

import peekrank
from helpers.scripts import ROOT, load_script
from peekrank.registry import LEARNERS, MEASURES, SURROGATES

HOOKS = load_script("pages")
FROM_ROOT = [ROOT / name for name in HOOKS.PAGES]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
API = [page for page in DOCS if page.parent.name == "api"]
PAGES = FROM_ROOT + [page for page in DOCS if page not in API]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def config() -> MkDocsConfig:
    return load_config(str(ROOT / "mkdocs.yml"))


def navigation(part: Any) -> Iterator[tuple[str, str]]:
    """Title and file of each page that the navigation leads to."""
    for entry in part:
        for title, content in entry.items():
            yield from [(title, content)] if isinstance(content, str) else navigation(content)


def in_navigation() -> dict[str, str]:
    return {file: title for title, file in navigation(config().nav)}


@cache
def as_in_the_site(page: Path) -> str:
    made = markdown.Markdown(extensions=config().markdown_extensions, extension_configs=config().mdx_configs)
    return str(made.convert(page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    return set(re.findall(r'id="([^"]+)"', as_in_the_site(page)))


@pytest.mark.parametrize("page", PAGES + API, ids=name_of)
def test_links_and_their_anchors_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    astray = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            astray.append(link)
    assert not astray


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_reads_the_same_in_the_site_and_wherever_markdown_is_shown(page: Path) -> None:
    """Dialects differ: a formula in <angles> is taken for a tag by one, a line that begins with - for a list."""
    elsewhere = MarkdownIt("commonmark").enable("table").render(page.read_text(encoding="utf-8"))
    one, two = words(elsewhere), words(as_in_the_site(page))
    assert one == two, next((a, b) for a, b in zip(pairwise(one), pairwise(two), strict=False) if a != b)


def words(page: str) -> list[str]:
    """The words of a page, and where headings, cells, items and blocks of code begin."""
    page = re.sub(r"<!--.*?-->|<a class=\"headerlink\".*?</a>", "", page, flags=re.S)
    page = re.sub(r"<(li|td|th|pre|blockquote|h\d|em|strong|img)\b[^>]*>", r" [\1] ", page)
    return html.unescape(re.sub(r"<[^>]*>", "", page)).split()


def test_the_navigation_holds_every_page_and_no_other() -> None:
    notebooks = {f"notebooks/{path.stem}.md" for path in (ROOT / "docs" / "notebooks").glob("*.ipynb")}
    there = {str(page.relative_to(ROOT / "docs")) for page in DOCS} | set(HOOKS.PAGES.values()) | notebooks
    assert set(in_navigation()) == there


def test_no_part_of_the_navigation_has_more_than_eight_entries() -> None:
    parts: list[Any] = [config().nav]
    for part in parts:
        assert len(part) <= 8, part
        parts += [content for entry in part for content in entry.values() if not isinstance(content, str)]


@pytest.mark.parametrize("name", LEARNERS.built_in)
def test_every_learner_has_its_page_or_its_section_of_the_baselines(name: str) -> None:
    baselines = ROOT / "docs" / "learners" / "baselines.md"
    assert in_navigation().get(f"learners/{name}.md") == name or name in anchors(baselines)


@pytest.mark.parametrize("name", SURROGATES.built_in)
def test_every_surrogate_has_its_page(name: str) -> None:
    assert in_navigation()[f"surrogates/{name}.md"] == name


@pytest.mark.parametrize("name", MEASURES.built_in)
def test_every_measure_has_its_row(name: str) -> None:
    assert "measures.md" in in_navigation()
    assert re.search(rf"^\| `{name}[`@]", (ROOT / "docs" / "measures.md").read_text(encoding="utf-8"), re.M)


def test_the_reference_of_calls_is_what_the_service_says() -> None:
    calls = load_script("calls")
    assert calls.PAGE.read_text(encoding="utf-8") == calls.reference(), "make calls writes it anew"


def test_the_command_reference_is_what_the_commands_say() -> None:
    commands = load_script("commands")
    assert commands.PAGE.read_text(encoding="utf-8") == commands.reference(), "make commands writes it anew"


def in_reference() -> set[str]:
    """The modules that the API reference shows."""
    return {name for page in API for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.M)}


@pytest.mark.parametrize("name", sorted(in_reference()))
def test_what_the_api_reference_shows_is_there(name: str) -> None:
    assert importlib.import_module(name).__doc__


@pytest.mark.parametrize("name", sorted({*peekrank.__all__} - {"__version__"}))
def test_every_public_name_is_in_the_api_reference(name: str) -> None:
    home = getattr(peekrank, name).__module__
    assert any(f"{home}.".startswith(f"{listed}.") for listed in in_reference())


def test_formulas_are_typeset_when_the_site_is_built() -> None:
    source = "Bound:\n\n```math\n\\sqrt{T}\n```\n\nfor\n$`T < 3`$, *not\n$`m`$*, not for `$T$` ($`k`$).\n"
    blocks = HOOKS.on_page_markdown(source, None, None, None)
    made = markdown.Markdown(extensions=config().markdown_extensions, extension_configs=config().mdx_configs)
    page = HOOKS.on_page_content(made.convert(blocks), None, None, None)
    assert page.count("<math") == 5  # a line may break after <
    assert "<msqrt><mi>T</mi></msqrt>" in page.replace("<mrow>", "").replace("</mrow>", "")
    assert page.count("<p>") == 2
    assert re.search(r'<em>not\s+<span class="whole"><math.*</math></span></em>', page)
    assert re.search(r'not for <code>\$T\$</code> <span class="whole">\(<math.*</math>\)\.</span></p>$', page)


def test_what_a_page_would_fetch_from_a_network_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        '<link rel="stylesheet" href="https://fonts.example/a.css"><script src="//cdn.example/b.js"></script>'
        '<img src="pictures/c.svg"><link rel="icon" href="d.png"><a href="https://semver.org">versions</a>'
    )
    assert HOOKS.fetched(page) == ["https://fonts.example/a.css", "//cdn.example/b.js"]


def test_a_page_opened_from_the_disk_can_be_searched(tmp_path: Path) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium is not installed")
    docs, site = tmp_path / "docs", tmp_path / "site"
    shutil.copytree(ROOT / "docs" / "assets", docs / "assets")
    (docs / "index.md").write_text("# First\n\nNothing here.\n")
    (docs / "other.md").write_text("# Second\n\nThe permutahedron is described on this page.\n")
    folders, nav = {"docs_dir": str(docs), "site_dir": str(site)}, ["index.md", "other.md"]
    build(load_config(str(ROOT / "mkdocs.yml"), **folders, nav=nav, hooks=[], plugins=["search", "offline"]))
    address = f"{(site / 'index.html').as_uri()}?q=permutahedron"
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    page = subprocess.run(
        [browser, *options, "--virtual-time-budget=20000", "--dump-dom", address],
        capture_output=True, text=True, check=True, timeout=120,
    ).stdout  # fmt: skip
    assert "other.html?h=permutahedron" in page
