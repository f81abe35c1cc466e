"""Hooks of the documentation site: generated pages, notebooks, typeset formulas, nothing from a network."""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

from latex2mathml import converter
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "scripts"), str(ROOT / "experiments")]  # where the makers of pages are

import calls  # noqa: E402
import commands  # noqa: E402
import records  # noqa: E402

from peekrank.checks import learners, measures, streams, surrogates  # noqa: E402

CHECKS = (learners, measures, streams, surrogates)

PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
ATTACHED = ("CITATION.cff", "references.bib")
_LINK = re.compile(rf"\]\(((?:\.\./)*)({'|'.join(map(re.escape, PAGES))})")

_PRIMED = re.compile(r"<msup>(<mi>[^<]*</mi>)<mi>&#x02032;</mi></msup>")
_EXAMPLE = re.compile(r"^\[`[^`]+`\]\((?:\.\./)+((?:examples|recipes)/[^)]+\.(py|sql))\)$", re.M)
_CHECKS = re.compile(r"^\[`(\w+_CHECKS)`\]\(\.\./src/peekrank/checks/[^)]+\)$", re.M)
_SESSION = re.compile(r"^```python\n(?=>>> )", re.M)
_SHOWN = re.compile(r'<div class="language-(pycon|console) highlight">(<pre>.*?<code>(.*?)</code></pre>)', re.S)
_FORMULA = re.compile(r"^```math\n(.*?)^```$", re.S | re.M)
_INLINE = re.compile(r"([(\[]?)\$<code>([^<]+)</code>\$([^\s<$]*)")
_MATHML = "http://www.w3.org/1998/Math/MathML"
_SCRIPTS = tuple(f"{{{_MATHML}}}{name}" for name in ("msub", "msup", "msubsup"))
_NESTED = dict.fromkeys("([{⟨", 1) | dict.fromkeys(")]}⟩", -1)
_BREAKS = frozenset("=<>≤≥≠+−,")
_OPERATOR = f"{{{_MATHML}}}mo"
ElementTree.register_namespace("", _MATHML)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/: those of the project's root, references, records and notebooks."""
    for target, text in generated().items():
        files.append(File.generated(config, target, content=text))
    for name in (*ATTACHED, *(f"records/{path.name}" for path in records.FOLDER.glob("*.json"))):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(file)
        page = file.src_uri.removesuffix(".ipynb") + ".md"
        files.append(File.generated(config, page, content=page_of(json.loads(file.content_string))))
    return files


@cache
def generated() -> dict[str, str]:
    """Return the pages that are made when the site is built, by path in the site."""
    made = {
        target: (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        for source, target in PAGES.items()
    }
    made |= {"commands.md": commands.reference(), "service/http.md": calls.reference()}
    known = records.read_all()
    made["records/index.md"] = records.index(known)
    for name, record in known.items():
        page = f"{record.markdown()}\n*These figures as JSON: [{name}.json]({name}.json).*\n"
        made[f"records/{name}.md"] = f"---\nsearch: {{exclude: true}}\n---\n\n{page}"
    return made


def page_of(notebook: dict[str, Any]) -> str:
    """Render a notebook as Markdown: texts, code and output.

    >>> shown = {"output_type": "stream", "text": ["2"]}
    >>> page_of({"cells": [{"cell_type": "code", "source": ["print(1 + 1)"], "outputs": [shown]}]}).splitlines()
    ['```python', 'print(1 + 1)', '```', '', '```text', '2', '```']
    """
    parts: list[str] = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [_shown(output) for output in cell.get("outputs", [])]
    return "\n\n".join(parts) + "\n"


def _shown(output: dict[str, Any]) -> str:
    picture = output.get("data", {}).get("image/png")
    if picture:
        return f'<img alt="What the code above draws" src="data:image/png;base64,{"".join(picture).strip()}">'
    text = "".join(output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"])
    return f"```text\n{text.rstrip()}\n```"


def convert(formula: str, display: Literal["inline", "block"] = "inline") -> str:
    """TeX as MathML, in which quotients would be spaced out like sums, and primes be raised twice."""
    made = _PRIMED.sub(r"<mrow>\1<mo>&#x02032;</mo></mrow>", converter.convert(formula, display=display))
    return made.replace("<mo>&#x0002F;", '<mo lspace="0" rspace="0">&#x0002F;')


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Lead links to pages of the root and to notebooks to where the site has them; mark sessions; typeset math."""
    whole = with_checks(with_examples(markdown))
    moved = _LINK.sub(lambda link: f"]({link[1].removeprefix('../')}{PAGES[link[2]]}", whole)
    moved = _SESSION.sub("```pycon\n", moved.replace(".ipynb)", ".md)"))
    return _FORMULA.sub(lambda found: f'<div class="formula">{convert(found[1], display="block")}</div>', moved)


def with_examples(markdown: str) -> str:
    """Replace each paragraph that is only a link to a file of examples/ or recipes/ by its name and text."""

    def listing(found: re.Match[str]) -> str:
        path = ROOT / found[1]
        kind = "python" if found[2] == "py" else found[2]
        return f"`{path.name}`:\n\n```{kind}\n{path.read_text(encoding='utf-8')}```"

    return _EXAMPLE.sub(listing, markdown)


def with_checks(markdown: str) -> str:
    """Replace each paragraph that is only a link to a dictionary of checks by the checks and what they require.

    >>> with_checks("[`MEASURE_CHECKS`](../src/peekrank/checks/measures.py)").splitlines()[0]
    "- `name_round_trips`: Check that parsing a measure's name gives an equal measure."
    """

    def listing(found: re.Match[str]) -> str:
        known = next(vars(module)[found[1]] for module in CHECKS if found[1] in vars(module))
        return "\n".join(f"- `{name}`: {_first_sentence(check)}" for name, check in known.items())

    return _CHECKS.sub(listing, markdown)


def _first_sentence(function: Any) -> str:
    """Return the first paragraph of a docstring in one line."""
    return " ".join(function.__doc__.split("\n\n")[0].split())


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Typeset formulas within lines, and give the copy button of a session its commands, without the output.

    Formulas come after Markdown, which takes math for a block and would end the paragraph.

    >>> on_page_content("With $<code>x_1</code>$, known.", None, None, None)
    'With <span class="whole"><math ...><msub><mi>x</mi><mn>1</mn></msub></math>,</span> known.'
    """
    html = _INLINE.sub(lambda found: inline(unescape(found[2]), found[1], found[3]), html)
    return _SHOWN.sub(_copied, html)


def _copied(found: re.Match[str]) -> str:
    text = typed(unescape(re.sub(r"<[^>]*>", "", found[3])), found[1])
    return f'<div class="language-{found[1]} highlight" data-copy="{escape(text)}">{found[2]}'


def typed(session: str, language: str) -> str:
    r"""Return the input of a session, without prompts and output.

    >>> typed(">>> for i in (1, 2):\n...     print(i)\n...\n1\n2\n", "pycon")
    'for i in (1, 2):\n    print(i)\n'
    >>> typed("$ peekrank demo \\\n    --out here\nwrote it\n$ ls\n", "console")
    'peekrank demo \\\n    --out here\nls'
    """
    prompt, further = {"pycon": (">>>", "..."), "console": ("$", "")}[language]
    lines: list[str] = []
    goes_on = False
    for line in session.splitlines():
        first = line.startswith(prompt)
        if first or (goes_on and line.startswith(further)):
            lines.append(line.removeprefix(prompt if first else further))
            if first or further:
                lines[-1] = lines[-1].removeprefix(" ")
            goes_on = language == "pycon" or line.endswith("\\")
        else:
            goes_on = False
    return "\n".join(lines)


def inline(formula: str, before: str, after: str) -> str:
    """Split a formula, since a browser never breaks one over two lines; brackets stay with their part."""
    parts = [ElementTree.tostring(part, encoding="unicode") for part in _parts(formula)]
    parts[0] = before + parts[0]
    parts[-1] += after
    return "".join(f'<span class="whole">{part}</span>' for part in parts)


def _parts(formula: str) -> list[ElementTree.Element]:
    """Cut after relations, sums, commas and factors in brackets, but never within brackets."""
    (row,) = ElementTree.fromstring(convert(formula))  # noqa: S314 - of our own pages
    parts, depth, bars = [ElementTree.Element(f"{{{_MATHML}}}math")], 0, False
    for element, following in zip(row, [*row[1:], None], strict=True):
        parts[-1].append(element)
        text = (element[0] if element.tag in _SCRIPTS else element).text or ""
        depth, bars = depth + _NESTED.get(text, 0), bars ^ (text == "|")
        if following is None or depth or bars or len(parts[-1]) == 1:
            continue
        if text in _BREAKS or (text == ")" and (following.tag != _OPERATOR or following.text in _NESTED)):
            parts.append(ElementTree.Element(f"{{{_MATHML}}}math"))
    return parts


def on_page_read_source(page: Page, config: MkDocsConfig) -> str | None:  # noqa: ARG001
    """Read the page on the service's configuration, and insert the tables of its fields from the code."""
    return with_fields(page.file.content_string) if page.file.src_uri == "service/configuration.md" else None


def with_fields(markdown: str) -> str:
    """Put the tables of all fields of a service's configuration in place of the mark for them."""
    from peekrank.service.config.reference import reference

    return markdown.replace("<!-- fields of the configuration -->", reference())


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site whose pages would ask a network for styles, scripts, letters or pictures."""
    site = Path(config.site_dir)
    foreign = [f"{page.relative_to(site)}: {asset}" for page in site.rglob("*.html") for asset in fetched(page)]
    foreign += [
        f"{sheet.relative_to(site)}: {url}"
        for sheet in site.rglob("*.css")
        for url in re.findall(r"url\([\"']?((?:https?:)?//[^)]*)", sheet.read_text(encoding="utf-8"))
    ]
    if foreign:
        raise PluginError("pages must open without a network, but these are fetched:\n" + "\n".join(foreign))


def fetched(page: Path) -> list[str]:
    """List what a browser fetches from elsewhere when it opens a page. Links do not count."""
    found = _Fetched()
    found.feed(page.read_text(encoding="utf-8"))
    return found.addresses


class _Fetched(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            asset = name in ("src", "srcset", "poster", "data") or (name == "href" and tag == "link")
            if asset and value and re.match(r"(https?:)?//", value):
                self.addresses.append(value)
