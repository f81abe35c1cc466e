"""What surrounds the code says what is true: workflows, templates, the citation, and files that pages name."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.scripts import ROOT
from peekrank.data import peek
from peekrank.engine import serialization
from peekrank.evaluation import log
from peekrank.games import certificate
from peekrank.jobs import results_dir
from peekrank.training import model

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CHANGES = ROOT / "CHANGELOG.md"  # names what is gone
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob(".github/**/*.md")} - {CHANGES})
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
FOLDERS = "tests|src|peekrank|docs|scripts|benchmarks|experiments|examples|requirements|learners|cli"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def made(text: str) -> set[str]:
    """The targets of make that a text names in code."""
    return set(re.findall(r"(?:`|^\s+|run: )make ([a-z]+)", text, re.M))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_is_there(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    assert all({"runs-on", "timeout-minutes", "steps"} <= set(job) for job in jobs.values())
    assert made(text) <= TARGETS
    for named in re.findall(r"\b(?:tests|scripts|requirements)/[\w./]+", text):
        assert (ROOT / named).exists(), named


def test_the_suite_runs_with_every_python_that_is_promised() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))["jobs"]
    pythons = jobs["linux"]["strategy"]["matrix"]["python"]
    min_propensity = [
        line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if "Python :: 3." in line
    ]
    assert pythons == min_propensity
    low, high = (int(part.split(".")[1]) for part in re.findall(r"3\.\d+", PROJECT["project"]["requires-python"]))
    assert [int(version.split(".")[1]) for version in min_propensity] == list(range(low, high))
    assert {job["steps"][-1]["run"].split()[1] for name, job in jobs.items() if name != "smoke"} == {
        "test", "portable", "minimum", "recipes",
    }  # fmt: skip


def test_hooks_before_a_commit_are_tools_of_the_project() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    tools = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks}
    assert tools == {"ruff", "mypy", "lint-imports"}
    assert {"ruff", "mypy", "import-linter"} <= set(map(str, PROJECT["dependency-groups"]["dev"]))


@pytest.mark.parametrize("template", sorted(ROOT.glob(".github/ISSUE_TEMPLATE/*.md")), ids=lambda path: path.stem)
def test_templates_have_a_name_and_say_what_they_are_for(template: Path) -> None:
    _, head, body = template.read_text(encoding="utf-8").split("---\n", 2)
    assert {"name", "about"} <= set(yaml.safe_load(head))
    assert body.count("**") >= 4


def test_the_citation_has_all_three_papers() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["license"] == PROJECT["project"]["license"]
    papers = citation["references"]
    titles = {paper["title"] for paper in papers}
    glossary = re.sub(r"\s+", " ", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    assert len(titles) == 3
    for paper in papers:
        assert f"*{paper['title']}*" in glossary
        assert {"type", "authors"} <= set(paper)
        assert all(set(author) == {"family-names", "given-names"} for author in paper["authors"])


def test_bibtex_has_the_software_and_the_papers_as_they_are_cited() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    entries = (ROOT / "references.bib").read_text(encoding="utf-8").split("\n@")
    assert f"version = {{{citation['version']}}}" in entries[0]
    assert len(entries) == 1 + len(citation["references"])
    for paper, entry in zip(citation["references"], entries[1:], strict=True):
        (number,) = (one["value"].removeprefix("arXiv:") for one in paper["identifiers"])
        assert f"title = {{{paper['title']}}}" in entry
        assert f"eprint = {{{number}}}" in entry
        assert f"year = {{{paper['year']}}}" in entry


def test_the_betting_paper_has_one_date() -> None:
    """Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B 2024."""
    files = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    named = r"Waudby-Smith(?: and|,? &) (?:A\. )?Ramdas\b[^.;]{0,3}?((?:19|20)\d\d)|by betting\*?, JRSS B (\d{4})"
    found = [
        year for f in files for pair in re.findall(named, f.read_text(encoding="utf-8")) for year in pair if year
    ]
    assert len(found) >= 4
    assert set(found) == {"2024"}


def test_the_table_of_formats_is_that_of_the_code() -> None:
    table = dict(re.findall(r"^([a-z ]+) \(.*\) \| (\d+) \|", (ROOT / "docs/releases.md").read_text(), re.M))
    assert table == {
        "saved agent": str(serialization._FORMAT),
        "model": str(model._FORMAT),
        "data set": str(peek._VERSION),
        "folder of results": str(results_dir.FORMAT),
        "certificate": certificate.FORMAT.rpartition(" ")[2],
        "log": str(log.VERSION),
    }


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_and_targets_that_a_page_names_are_there(page: Path) -> None:
    whole = page.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", "", whole, flags=re.S | re.M)
    named = re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", text)
    positions = (ROOT, ROOT / "src", ROOT / "src" / "peekrank")
    unknown = [file for file in named if not any((position / file).exists() for position in positions)]
    assert [file for file in unknown if "mine" not in file and "NAME" not in file] == []
    fenced = "".join(re.findall(r"^```sh$.*?^```$", whole, flags=re.S | re.M))
    assert made(text) | set(re.findall(r"^make ([a-z]+)", fenced, re.M)) <= TARGETS


def pins(name: str) -> set[str]:
    """Return the pinned versions of a file of requirements."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    return set(re.findall(r"^[\w.-]+(?:\[\w+\])?==\S+", text, re.M))


def test_the_demo_runs_with_the_versions_that_are_tested() -> None:
    assert pins("demo") <= pins("dev")
    needed = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["cli"]]
    names = {re.split(r"[<>=\[]", text)[0] for text in needed} - {"peekrank"}
    assert names <= {pin.partition("==")[0] for pin in pins("demo")}
