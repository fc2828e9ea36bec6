"""Checkpoints in JSON-lines files, one file a thread."""

from jianmu.memory.checkpoint.file.checkpointer import FileCheckpointer

__all__ = ["FileCheckpointer"]
