"""Keys: who may call. Random, kept as hashes, with a role and, if wanted, some slots only.

A key is ``peek_NAME_SECRET``. The secret has 256 random bits, so that a plain SHA-256 of the key is enough to
keep: there is nothing to guess, and no reason for a slow hash. The name finds the hash, which is then compared in
constant time.
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

from peekrank.service.api.problems import Problem
from peekrank.service.api.routes import ROLES, Role
from peekrank.service.config import Config

_NAME = re.compile(r"[a-z0-9-]{1,40}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_NOBODY = sha256(b"").hexdigest()


class Key(NamedTuple):
    """A key as the service knows it: not the key itself."""

    name: str
    role: Role
    hash: str  # "sha256:" and 64 hexadecimal digits
    slots: frozenset[str] = frozenset()  # empty: all

    def may(self, role: Role) -> bool:
        """Whether this key may make calls that need the role.

        >>> key = Key("web", "app", "sha256:" + "0" * 64)
        >>> key.may("app"), key.may("admin")
        (True, False)
        """
        return self.role == "admin" or self.role == role

    def sees(self, slot: str) -> bool:
        """Whether this key is for the slot."""
        return not self.slots or slot in self.slots


ANYBODY = Key("anybody", "admin", "")  # on a service without keys


def new_key(name: str) -> tuple[str, str]:
    """A new key, and the hash of it that belongs into the configuration.

    >>> key, kept = new_key("web")
    >>> key.startswith("peek_web_"), len(kept), hash_key(key) == kept
    (True, 71, True)
    """
    check_name(name)
    key = f"peek_{name}_{secrets.token_urlsafe(32)}"
    return key, hash_key(key)


def hash_key(key: str) -> str:
    """What is kept of a key."""
    return f"sha256:{sha256(key.encode()).hexdigest()}"


def check_name(name: str) -> None:
    """Raise a ValueError unless this can be the name of a key."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"name of a key {name!r}: must be 1 to 40 small letters, digits and hyphens")


class Keys:
    """All keys of a service; none at all lets everybody in, which is for a service on one machine only.

    Parameters
    ----------
    keys
        The keys, whose names must differ.

    >>> text, kept = new_key("web")
    >>> keys = Keys([Key("web", "app", kept)])
    >>> keys.authenticate(f"Bearer {text}").role
    'app'
    >>> keys.authenticate("Bearer peek_web_guess")
    Traceback (most recent call last):
    peekrank.service.api.problems.Problem: no key of this service was sent: Authorization: Bearer KEY
    """

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._by_name: dict[str, Key] = {}
        for key in keys:
            check_name(key.name)
            if key.name in self._by_name:
                raise ValueError(f"two keys are named {key.name!r}: each needs a name of its own")
            if key.role not in ROLES:
                raise ValueError(
                    f"role of key {key.name!r} = {key.role!r}: must be {' or '.join(map(repr, ROLES))}"
                )
            if not _HASH.fullmatch(key.hash):
                raise ValueError(
                    f"hash of key {key.name!r}: must be as `peekrank serve --new-key {key.name}` prints it"
                )
            self._by_name[key.name] = key

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def authenticate(self, authorization: str) -> Key:
        """The key that a header names, or a `Problem`; whatever is sent, a comparison takes the same time."""
        if not self._by_name:
            return ANYBODY
        sent = _sent(authorization)
        parts = sent.split("_", 2)
        known = self._by_name.get(parts[1]) if len(parts) == 3 else None
        same = compare_digest(hash_key(sent), known.hash if known else f"sha256:{_NOBODY}")
        if known is None or not same:
            raise Problem("no-key", "no key of this service was sent: Authorization: Bearer KEY")
        return known


def keys_from_config(config: Config) -> Keys:
    """The keys that a configuration names."""
    return Keys(Key(key.name, key.role, key.hash, frozenset(key.slots)) for key in config.keys)


def _sent(authorization: str) -> str:
    """The key in a header: a bearer's token, or, for browsers, the password of basic authentication."""
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(rest, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def check_bind(host: str, keys: Keys) -> None:
    """Raise a ValueError if a service without keys would be reachable from other machines."""
    if not keys and not is_loopback(host):
        raise ValueError(
            f"host = {host!r}: a service that other machines can reach needs keys; make one with `peekrank serve "
            '--new-key NAME`, or listen on this machine only: host = "127.0.0.1"'
        )
