"""Checkpoints in PostgreSQL, shared by many processes and machines."""

from jianmu.memory.checkpoint.postgres.checkpointer import PostgresCheckpointer

__all__ = ["PostgresCheckpointer"]
