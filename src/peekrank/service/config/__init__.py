"""The configuration of a service: its model, the TOML file it is read from, and its reference."""

from peekrank.service.config.model import (
    Config,
    KeyConfig,
    LimitsConfig,
    ServerConfig,
    SlotConfig,
    StoreConfig,
    read_config,
)

__all__ = ["Config", "KeyConfig", "LimitsConfig", "ServerConfig", "SlotConfig", "StoreConfig", "read_config"]
