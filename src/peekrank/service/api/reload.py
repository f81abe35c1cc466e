"""Reload of the configuration file of a running service: by a call, or by the signal SIGHUP."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

import structlog

from peekrank.service.api import problems
from peekrank.service.api.keys import check_bind, keys_from_config
from peekrank.service.api.problems import Problem
from peekrank.service.config import Config, LimitsConfig

_log = structlog.get_logger()


class Reloadable(Protocol):
    """A service whose configuration can change while it runs."""

    @property
    def config(self) -> Config:
        """The configuration."""
        ...

    def reload(self, config: Config) -> list[str]:
        """Change the configuration. Returns a line for each field. Raises a `Problem` if it cannot."""
        ...


class Reloader:
    """Keys and limits of a service, and the way to change them and the rest of its configuration.

    Parameters
    ----------
    service
        The service.
    read
        Reads the configuration again. None if it is from no file.
    """

    def __init__(self, service: Reloadable, read: Callable[[], Config] | None = None) -> None:
        self._service, self._read = service, read
        self._lock = threading.Lock()
        self.keys = keys_from_config(service.config)

    @property
    def limits(self) -> LimitsConfig:
        """The limits of calls."""
        return self._service.config.limits

    def reload(self) -> list[str]:
        """Read the file, and change what differs: all of it, or nothing. Returns a line for each field.

        Raises a `Problem` if the file is not valid, or if a field needs a restart.
        """
        if self._read is None:
            raise problems.bad_configuration("this service was not started from a configuration file")
        with self._lock:
            try:
                config = self._read()
                keys = keys_from_config(config)
                check_bind(config.server.host, keys)
                changed = self._service.reload(config)
            except ValueError as error:
                _log.error("reload rejected", reason=str(error))
                raise problems.bad_configuration(str(error)) from None
            except Problem as problem:
                _log.error("reload rejected", reason=problem.detail)
                raise
            self.keys.replace(keys)
            _log.info("reloaded", changed=changed)
            return changed

    def reload_quietly(self) -> None:
        """Reload for a signal, whose sender reads the messages only."""
        try:
            self.reload()
        except Problem:
            pass
        except Exception:
            _log.exception("reload failed")
