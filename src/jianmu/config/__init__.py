"""Settings as data; nothing here builds anything."""

from jianmu.config.project import Durability, ProjectConfig, RuntimeCheckpointConfig

__all__ = ["Durability", "ProjectConfig", "RuntimeCheckpointConfig"]
