"""From a configuration to the checkpointer it describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jianmu.memory.checkpoint.file import FileCheckpointer
from jianmu.memory.checkpoint.in_memory import InMemoryCheckpointer
from jianmu.memory.checkpoint.null import NullCheckpointer

if TYPE_CHECKING:
    from jianmu.config import RuntimeCheckpointConfig
    from jianmu.memory.checkpoint.protocol import CheckpointerProtocol


def make_checkpointer(config: RuntimeCheckpointConfig) -> CheckpointerProtocol:
    """Make the checkpointer that a configuration names.

    Args:
        config: the configuration; its ``enabled`` is the caller's business.

    Raises:
        MissingExtraError: the backend's package is not installed.
    """
    match config.backend:
        case "file":
            return FileCheckpointer(config.directory, fsync=config.fsync, keep_last=config.keep_last)
        case "memory":
            return InMemoryCheckpointer()
        case "null":
            return NullCheckpointer()
        case "sqlite":
            from jianmu.memory.checkpoint.sqlite import SqliteCheckpointer

            return SqliteCheckpointer(config.url or f"{config.directory}/checkpoints.db")
        case "postgres":
            from jianmu.memory.checkpoint.postgres import PostgresCheckpointer

            return PostgresCheckpointer(config.url or "")
        case "redis":
            from jianmu.memory.checkpoint.redis import RedisCheckpointer

            return RedisCheckpointer(config.url or "")
