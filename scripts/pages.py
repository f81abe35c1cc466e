"""Hooks of the documentation site: pages from the root, typeset formulas, and nothing from a network."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
ATTACHED = ("CITATION.cff",)
_LINK = re.compile(rf"\]\(((?:\.\./)*)({'|'.join(map(re.escape, PAGES))})")

_FORMULA = re.compile(r"^```math\n(.*?)^```$", re.S | re.M)
_INLINE = re.compile(r"\$<code>([^<]+)</code>\$")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what lives outside of docs/ because readers look for it there."""
    for source, target in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, target, content=text))
    for name in ATTACHED:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Lead links to pages of the root to where the site has them, a folder less far up; typeset blocks of math."""
    moved = _LINK.sub(lambda link: f"]({link[1].removeprefix('../')}{PAGES[link[2]]}", markdown)
    return _FORMULA.sub(lambda found: f'<div class="formula">{convert(found[1], display="block")}</div>', moved)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Typeset formulas within lines, after Markdown, which takes math for a block and would end the paragraph.

    >>> on_page_content("With $<code>x_1</code>$ known.", None, None, None)
    'With <math ...><mrow><msub><mi>x</mi><mn>1</mn></msub></mrow></math> known.'
    """
    return _INLINE.sub(lambda found: convert(unescape(found[1])), html)


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
    """What a browser fetches from elsewhere when it opens a page; links to follow do not count."""
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
