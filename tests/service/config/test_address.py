"""Addresses of databases: read in one way, or rejected without a word of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from peekrank.service.config.address import check_address, public_address
from peekrank.service.config.file import Document
from peekrank.service.config.model import parse_config
from peekrank.service.event_log.open import open_log

VALID = {
    "postgresql://peekrank@db.internal/peekrank": "postgresql://db.internal/peekrank",
    "postgres://me:hunter2@127.0.0.1:5432/shop?sslmode=require": "postgresql://127.0.0.1:5432/shop",
    "postgresql://me:a%2Fb%40c@[::1]:5432/shop": "postgresql://[::1]:5432/shop",
    "postgresql://me:a#b:c@one:1,two:2/shop": "postgresql://one:1,two:2/shop",
    "postgresql://peekrank@/postgres?host=/tmp/folder": "postgresql:///postgres",
    "postgresql:///shop": "postgresql:///shop",
    "postgresql://": "postgresql:///",
}
ODD = [
    "postgresql://me:hun/ter2@host/shop",
    "postgresql://me:hun?ter2@host/shop",
    "postgresql://me:hun@ter2@host/shop",
    "postgresql://me:hun ter2@host/shop",
    "postgresql://me:12/hunter2@host",
    "postgresql://me:hunter2",
    "postgresql://me:hunter2@host:hunter2/shop",
    "postgresql://me:hunter2@host/shop?password=hunter2@",
    "postgresql://me:hunter2@host/shop#hunter2",
    "postgresql:/me:hunter2@host/shop",
    "postgresql+psycopg://me:hunter2@host/shop",
    "mysql://me:hunter2@host/shop",
    "hunter2",
]


@pytest.mark.parametrize("url", VALID)
def test_the_public_part_has_neither_user_nor_password_nor_options(url: str) -> None:
    check_address(url)
    assert public_address(url) == VALID[url]


@pytest.mark.parametrize("url", ODD)
def test_odd_addresses_are_rejected_without_a_part_of_them(url: str) -> None:
    text = f'[store]\nurl = "{url}"\n[slots.home]\nitems = ["tea", "cake"]\n'
    with pytest.raises(ValueError, match=r"line 2: store.url: must be postgresql://USER@HOST") as rejected:
        parse_config(Document(text, "service.toml"))
    assert not any(part in str(rejected.value) for part in ("hun", "ter2", "me:"))


@pytest.mark.parametrize("url", [url for url in ODD if "://" in url])
def test_commands_do_not_tell_them_either(url: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(ValueError, match="the address of the database cannot be read") as rejected:
        open_log(url)
    assert not any(part in str(rejected.value) for part in ("hun", "ter2", "me:"))


def test_other_secrets_are_not_told(tmp_path: Path) -> None:
    text = '[[keys]]\nname = "web"\nhash = "peek_web_hunter2"\n[slots.home]\nitems = ["tea", "cake"]\n'
    with pytest.raises(ValueError, match=r"line 3: keys\[0\].hash: must be sha256:") as rejected:
        parse_config(Document(text, "service.toml"))
    assert "hunter2" not in str(rejected.value)
