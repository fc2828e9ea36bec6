"""Settings as data; nothing here builds anything."""

from jianmu.config.project import ProjectConfig, RuntimeCheckpointConfig

__all__ = ["ProjectConfig", "RuntimeCheckpointConfig"]
