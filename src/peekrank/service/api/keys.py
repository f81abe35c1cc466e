"""API keys: random, stored as hashes, each with a role and optionally a list of slots.

A key is ``peek_NAME_SECRET``. The secret has 256 random bits, so that nobody can guess it and a plain SHA-256
suffices. The service looks up the hash by the name, and compares it in constant time.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest
from ipaddress import ip_address
from typing import NamedTuple

from peekrank.service.api import problems
from peekrank.service.api.problems import Problem
from peekrank.service.api.routes import ROLES, Role
from peekrank.service.config import Config

_NAME = re.compile(r"[a-z0-9-]{1,40}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_NOBODY = sha256(b"").hexdigest()


class Key(NamedTuple):
    """A key as the service stores it: its name, role and hash."""

    name: str
    role: Role
    hash: str  # "sha256:" and 64 hexadecimal digits
    slots: frozenset[str] = frozenset()  # empty: all

    def may(self, role: Role) -> bool:
        """Check whether this key may make calls that need the role.

        >>> key = Key("web", "app", "sha256:" + "0" * 64)
        >>> key.may("app"), key.may("admin")
        (True, False)
        """
        return self.role == "admin" or self.role == role

    def sees(self, slot: str) -> bool:
        """Check whether this key is valid for the slot."""
        return not self.slots or slot in self.slots

    def check_slot(self, slot: str) -> None:
        """Raise a `Problem` if this key is not valid for the slot: it does not exist for it."""
        if not self.sees(slot):
            raise problems.unknown_slot(slot, self.slots)


ANYBODY = Key("anybody", "admin", "")  # the key of every caller if the service has no keys


def new_key(name: str) -> tuple[str, str]:
    """Create a key. Returns the key and its hash, which goes into the configuration.

    >>> key, digest = new_key("web")
    >>> key.startswith("peek_web_"), len(digest), hash_key(key) == digest
    (True, 71, True)
    """
    check_name(name)
    key = f"peek_{name}_{secrets.token_urlsafe(32)}"
    return key, hash_key(key)


def hash_key(key: str) -> str:
    """Hash a key for the configuration."""
    return f"sha256:{sha256(key.encode()).hexdigest()}"


def check_name(name: str) -> None:
    """Raise ValueError if this is not a valid name of a key."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"name of a key {name!r}: must be 1 to 40 lower-case letters, digits and hyphens")


class Keys:
    """All keys of a service. Without any, every caller may do everything, which suits a single machine only.

    Parameters
    ----------
    keys
        The keys. Their names must differ.

    >>> text, digest = new_key("web")
    >>> keys = Keys([Key("web", "app", digest)])
    >>> keys.authenticate(f"Bearer {text}").role
    'app'
    >>> keys.authenticate("Bearer peek_web_guess")
    Traceback (most recent call last):
    peekrank.service.api.problems.Problem: send a key of this service: Authorization: Bearer KEY
    """

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._by_name: dict[str, Key] = {}
        for key in keys:
            check_name(key.name)
            if key.name in self._by_name:
                raise ValueError(f"two keys are called {key.name!r}: names must differ")
            if key.role not in ROLES:
                raise ValueError(
                    f"role of key {key.name!r} = {key.role!r}: must be {' or '.join(map(repr, ROLES))}"
                )
            if not _HASH.fullmatch(key.hash):
                raise ValueError(
                    f"hash of key {key.name!r}: must be the line that `peekrank serve --new-key {key.name}` prints"
                )
            self._by_name[key.name] = key

    def replace(self, other: Keys) -> None:
        """Take the keys of another set, at once for all callers."""
        self._by_name = other._by_name

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def authenticate(self, authorization: str) -> Key:
        """Return the key in an Authorization header, in constant time. Raises a `Problem` if it is invalid."""
        if not self._by_name:
            return ANYBODY
        text = _key_in(authorization)
        parts = text.split("_", 2)
        known = self._by_name.get(parts[1]) if len(parts) == 3 else None
        same = compare_digest(hash_key(text), known.hash if known else f"sha256:{_NOBODY}")
        if known is None or not same:
            raise Problem("no-key", "send a key of this service: Authorization: Bearer KEY")
        return known


def keys_from_config(config: Config) -> Keys:
    """Return the keys of a configuration."""
    return Keys(Key(key.name, key.role, key.hash, frozenset(key.slots)) for key in config.keys)


def _key_in(authorization: str) -> str:
    """Extract the key: a bearer token, the password of basic authentication, or all of it, as TEI's clients do."""
    scheme, _, rest = authorization.strip().partition(" ")
    if not rest:
        return scheme
    if scheme.lower() == "bearer":
        return rest.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(rest, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""


def is_loopback(host: str) -> bool:
    """Check whether an address is reachable from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def check_bind(host: str, keys: Keys) -> None:
    """Raise ValueError if a service without keys would be reachable from other machines."""
    if not keys and not is_loopback(host):
        raise ValueError(
            f"host = {host!r}: a service that other machines can reach needs keys. Create one with `peekrank "
            'serve --new-key NAME`, or listen on this machine only: host = "127.0.0.1"'
        )
