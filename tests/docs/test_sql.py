"""The page about SQL, run as it is in DuckDB, against what peekrank says of the same decisions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import jinja2
import numpy as np
import pytest
from pages import with_examples

from helpers.services import service
from helpers.traffic import live
from peekrank import DCG
from peekrank.evaluation.evaluation import evaluate_source
from peekrank.evaluation.policies import ranker
from peekrank.evaluation.sources import open_source, whole_log
from peekrank.service.core.export_folder import export_to_folder
from peekrank.service.event_log.open import open_log

PAGE = Path("docs/recipes/sql.md").absolute()


def built(database: Any, model: str) -> None:
    """Build an incremental model as dbt does: create it, or replace rows with the same key and add the others."""
    exists = database.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'impressions'").fetchone()[
        0
    ]
    chosen: dict[str, Any] = {}

    def configure(**options: Any) -> str:
        chosen.update(options)
        return ""

    query = jinja2.Template(model, undefined=jinja2.StrictUndefined).render(
        config=configure,
        var={"decisions": "decisions"}.__getitem__,
        is_incremental=lambda: bool(exists),
        this="impressions",
    )
    assert chosen["materialized"] == "incremental"
    if not exists:
        database.execute(f"CREATE TABLE impressions AS {query}")
        return
    key = " AND ".join(f"new.{name} = impressions.{name}" for name in chosen["unique_key"])
    database.execute(f"CREATE OR REPLACE TEMP TABLE new AS {query}")
    database.execute(f"DELETE FROM impressions USING new WHERE {key}")  # noqa: S608
    database.execute("INSERT INTO impressions SELECT * FROM new")


def test_the_page_about_sql_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view, by_day, value, model = re.findall(r"```sql\n(.*?)```", with_examples(PAGE.read_text()), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    it, clock = service(tmp_path)
    store, folder = open_log("log.db"), Path("decisions")
    with duckdb.connect() as database:
        counts = []
        for n in range(4):
            clock.now += 50_000  # more than half a day
            live(it, clock, rounds=40, seed=n)
            export_to_folder(store, "home", folder, candidates=60)
            built(database, model)
            (found,) = database.execute("SELECT count(*) FROM impressions").fetchall()
            counts.append(found[0])
        source = open_source(folder)
        log = whole_log(source)
        assert counts == sorted(set(counts))
        assert counts[-1] == log.seen.sum()
        answers = database.execute("SELECT sum(feedback), count(feedback) FROM impressions").fetchone()
        assert answers == (np.nansum(log.feedback), (~np.isnan(log.feedback)).sum())
        database.execute(view)
        days = database.execute(by_day).fetchall()
        assert len({row[0] for row in days}) > 1
        assert sum(row[2] for row in days) == log.seen.sum()
        names = sorted(source.scope.names)
        expected = evaluate_source(
            source, [ranker(f"order:{','.join(names)}", source.scope, measure=DCG())], DCG()
        )
        ((ips, decisions),) = database.execute(value).fetchall()
        assert decisions == expected.answered
        assert ips == pytest.approx(expected.estimates[0].ips, rel=1e-12)
    it.close()
    store.close()
