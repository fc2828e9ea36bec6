"""Checkpoints in one SQLite file, shared by many threads and processes."""

from jianmu.memory.checkpoint.sqlite.checkpointer import SqliteCheckpointer

__all__ = ["SqliteCheckpointer"]
