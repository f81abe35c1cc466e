"""The documentation site: links and anchors, the navigation, and pages that are generated."""

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
from peekrank.cli.app import COMMANDS, command_named
from peekrank.registry import LEARNERS, MEASURES, SURROGATES
from peekrank.service.api.problems import PROBLEM_TYPES
from peekrank.service.api.routes import ENDPOINTS

HOOKS = load_script("pages")
FROM_ROOT = [ROOT / name for name in HOOKS.PAGES]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
API = [page for page in DOCS if page.parent.name == "api"]
PAGES = FROM_ROOT + [page for page in DOCS if page not in API]
GENERATED = {  # where they would be in docs/
    ROOT / "docs" / path: text for path, text in HOOKS.generated().items() if path not in HOOKS.PAGES.values()
}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def config() -> MkDocsConfig:
    return load_config(str(ROOT / "mkdocs.yml"))


def navigation(part: Any) -> Iterator[tuple[str, str]]:
    """Yield title and file of each page that the navigation leads to."""
    for entry in part:
        for title, content in entry.items():
            yield from [(title, content)] if isinstance(content, str) else navigation(content)


def in_navigation() -> dict[str, str]:
    return {file: title for title, file in navigation(config().nav)}


def text_of(page: Path) -> str:
    return GENERATED[page] if page in GENERATED else page.read_text(encoding="utf-8")


@cache
def as_in_the_site(page: Path) -> str:
    converter = markdown.Markdown(extensions=config().markdown_extensions, extension_configs=config().mdx_configs)
    return str(converter.convert(text_of(page)))


@cache
def anchors(page: Path) -> frozenset[str]:
    return frozenset(re.findall(r'id="([^"]+)"', as_in_the_site(page)))


def is_broken(page: Path, link: str) -> bool:
    file, _, anchor = link.partition("#")
    target = (page.parent / file).resolve() if file else page
    if target.suffix == ".json":
        target = ROOT / "records" / target.name
    is_there = target.exists() or target in GENERATED
    return not is_there or (anchor != "" and anchor not in anchors(target))


def test_links_and_their_anchors_lead_somewhere() -> None:
    broken = []
    for page in [*PAGES, *API, *GENERATED]:
        prose = re.sub(r"^```.*?^```", "", text_of(page), flags=re.S | re.M)
        links = [link for link in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in link]
        broken += [f"{name_of(page)}: {link}" for link in links if is_broken(page, link)]
    assert not broken


def test_pages_read_the_same_in_the_site_and_wherever_markdown_is_shown() -> None:
    """Dialects differ: one reads a formula in <angles> as a tag, another a line that begins with - as a list."""
    differing = []
    for page in PAGES:
        elsewhere = MarkdownIt("commonmark").enable("table").render(page.read_text(encoding="utf-8"))
        one, two = words(elsewhere), words(as_in_the_site(page))
        if one != two:
            pairs = zip(pairwise([*one, "(end)"]), pairwise([*two, "(end)"]), strict=False)
            differing.append((name_of(page), next((a, b) for a, b in pairs if a != b)))
    assert not differing


def words(page: str) -> list[str]:
    """Return the words of a page, and where headings, cells, items and blocks of code begin."""
    page = re.sub(r"<!--.*?-->|<a class=\"headerlink\".*?</a>", "", page, flags=re.S)
    page = re.sub(r"<(li|td|th|pre|blockquote|h\d|em|strong|img)\b[^>]*>", r" [\1] ", page)
    return html.unescape(re.sub(r"<[^>]*>", "", page)).split()


def test_the_navigation_holds_every_page_and_no_other() -> None:
    notebooks = {f"notebooks/{path.stem}.md" for path in (ROOT / "docs" / "notebooks").glob("*.ipynb")}
    pages = {str(page.relative_to(ROOT / "docs")) for page in DOCS} | set(HOOKS.generated()) | notebooks
    assert set(in_navigation()) == {page for page in pages if not re.match("records/(?!index)", page)}


def test_no_part_of_the_navigation_has_more_than_eight_entries() -> None:
    parts: list[Any] = [config().nav]
    for part in parts:
        assert len(part) <= 8, part
        parts += [content for entry in part for content in entry.values() if not isinstance(content, str)]


def test_every_learner_has_a_page_or_a_section_of_the_baselines() -> None:
    pages, sections = in_navigation(), anchors(ROOT / "docs" / "learners" / "baselines.md")
    assert [
        name for name in LEARNERS.built_in if pages.get(f"learners/{name}.md") != name and name not in sections
    ] == []


def test_every_surrogate_has_a_section() -> None:
    assert "surrogates.md" in in_navigation()
    assert set(SURROGATES.built_in) <= anchors(ROOT / "docs" / "surrogates.md")


def test_every_measure_has_its_row() -> None:
    assert "measures.md" in in_navigation()
    page = (ROOT / "docs" / "measures.md").read_text(encoding="utf-8")
    assert [name for name in MEASURES.built_in if not re.search(rf"^`{name}[`@]", page, re.M)] == []


def test_the_reference_has_every_call_and_every_problem() -> None:
    page = HOOKS.generated()["service/http.md"]
    for call in ENDPOINTS:
        assert f"### {call.name.replace('_', '-')}\n\n`{call.method} {call.path}`" in page
    assert all(f"| `/problems/{kind}` |" in page for kind in PROBLEM_TYPES)


def test_the_reference_has_every_command_and_its_options() -> None:
    page = HOOKS.generated()["commands.md"]
    for name in COMMANDS:
        section = page.partition(f"## peekrank {name}\n")[2].partition("\n## ")[0]
        assert f"\npeekrank {name}" in section
        named = [flag for option in command_named(name).params for flag in option.opts if flag.startswith("--")]
        assert [flag for flag in named if flag not in section and flag != "--help"] == []


def in_reference() -> set[str]:
    """Return the modules that the API reference shows."""
    return {name for page in API for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.M)}


def test_the_api_reference_shows_modules_with_docstrings() -> None:
    assert [name for name in sorted(in_reference()) if not importlib.import_module(name).__doc__] == []


def test_every_public_name_is_in_the_api_reference() -> None:
    homes = {name: getattr(peekrank, name).__module__ for name in peekrank.__all__ if name != "__version__"}
    listed = tuple(f"{module}." for module in in_reference())
    assert [name for name, home in homes.items() if not f"{home}.".startswith(listed)] == []


def test_formulas_are_typeset_when_the_site_is_built() -> None:
    source = "Bound:\n\n```math\n\\sqrt{T}\n```\n\nfor\n$`T < 3`$, *not\n$`m`$*, not for `$T$` ($`k`$).\n"
    blocks = HOOKS.on_page_markdown(source, None, None, None)
    converter = markdown.Markdown(extensions=config().markdown_extensions, extension_configs=config().mdx_configs)
    page = HOOKS.on_page_content(converter.convert(blocks), None, None, None)
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
