"""Keys: who may do what, and where a service may listen."""

from __future__ import annotations

import base64

import pytest

from peekrank.service.api.keys import Key, Keys, check_bind, hash_key, is_loopback, new_key
from peekrank.service.api.problems import Problem


def test_keys_are_random_and_only_their_hash_is_kept() -> None:
    (one, kept), (two, _) = new_key("web"), new_key("web")
    assert one != two
    assert len(base64.urlsafe_b64decode(one.split("_", 2)[2] + "=")) == 32
    assert kept == hash_key(one)
    assert one not in repr(Keys([Key("web", "app", kept)]))


def test_a_key_is_known_by_bearer_and_basic() -> None:
    text, kept = new_key("web")
    keys = Keys([Key("web", "app", kept), Key("other", "admin", new_key("other")[1])])
    assert keys.authenticate(f"Bearer {text}").name == "web"
    assert keys.authenticate("Basic " + base64.b64encode(f"anybody:{text}".encode()).decode()).name == "web"


def test_anything_else_is_rejected() -> None:
    keys = Keys([Key("web", "app", new_key("web")[1])])
    wrong = [
        "Bearer",
        "Bearer ",
        "Bearer peek_web_",
        "Bearer peek_nobody_x",
        "Basic !",
        "Basic ////",
        "Digest x",
        "é",
    ]
    for header in ("", *wrong):
        with pytest.raises(Problem, match="send a key"):
            keys.authenticate(header)


def test_another_keys_secret_does_not_do() -> None:
    (one, kept), (two, other) = new_key("one"), new_key("two")
    keys = Keys([Key("one", "app", kept), Key("two", "admin", other)])
    with pytest.raises(Problem):
        keys.authenticate(f"Bearer {one.replace('_one_', '_two_')}")
    assert keys.authenticate(f"Bearer {two}").role == "admin"


def test_without_keys_everybody_may_do_everything() -> None:
    anybody = Keys().authenticate("")
    assert anybody.may("admin")
    assert anybody.sees("home")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (Key("Web", "app", "sha256:" + "0" * 64), "lower-case letters"),
        (Key("web", "boss", "sha256:" + "0" * 64), "'reader' or 'app' or 'admin'"),  # type: ignore[arg-type]
        (Key("web", "app", "peek_web_secret"), "must be the line that `peekrank serve --new-key web` prints"),
    ],
)
def test_a_wrong_key_is_refused_without_showing_it(key: Key, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        Keys([key])
    assert "secret" not in str(caught.value)


def test_two_keys_of_one_name_are_refused() -> None:
    key = Key("web", "app", new_key("web")[1])
    with pytest.raises(ValueError, match="two keys are called 'web'"):
        Keys([key, key])


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org", ""])  # noqa: S104 - is refused
def test_no_bind_beyond_this_machine_without_keys(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(ValueError, match="needs keys"):
        check_bind(host, Keys())
    check_bind(host, Keys([Key("web", "app", new_key("web")[1])]))


def test_this_machine_needs_no_keys() -> None:
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        check_bind(host, Keys())
