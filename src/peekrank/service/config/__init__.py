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
from peekrank.service.config.rerank import RerankConfig

__all__ = [
    "Config",
    "KeyConfig",
    "LimitsConfig",
    "RerankConfig",
    "ServerConfig",
    "SlotConfig",
    "StoreConfig",
    "read_config",
]
