"""The file to begin with works, also with what it shows in comments; the page lists all fields."""

from __future__ import annotations

import re

from helpers.scripts import ROOT, load_script
from peekrank.service.config.file import Document
from peekrank.service.config.model import parse_config
from peekrank.service.config.reference import TABLES, example, reference

PAGE = ROOT / "docs" / "service" / "configuration.md"


def uncommented() -> str:
    """The example with all that it shows switched on."""
    lines = [re.sub(r"^# (?=\[|\w+ = )", "", line) for line in example().splitlines()]
    return "\n".join(lines).replace("sha256:...", "sha256:" + "0" * 64)


def test_the_file_to_begin_with() -> None:
    config = parse_config(Document(example(), "service.toml"))
    assert [slot.name for slot in config.slots] == ["home"]
    assert config.keys == ()


def test_what_it_shows_in_comments() -> None:
    config = parse_config(Document(uncommented(), "service.toml"))
    home, search = config.slots
    assert (search.k, search.missing_feedback, search.d) == (3, 0, 200 + 16 + 4)
    assert home.learner == "doubtsort"
    assert config.keys[0].name == "web"


def test_the_page_lists_all_fields() -> None:
    assert reference() in load_script("pages").with_fields(PAGE.read_text(encoding="utf-8"))
    assert all(f"`{name}`" in reference() for cls in TABLES.values() for name in cls.__annotations__)
