"""Where checkpoints are stored in tests, also for their child processes: light to import."""

from __future__ import annotations

import json
from typing import Any

from jianmu import memory


class Engine:
    """One place where checkpoints are stored, opened as often as a test likes, also by its child processes.

    Args:
        name: ``sqlite``, ``postgres`` or ``redis``.
        where: the path or the URL.
        options: what keeps this test's data apart from others'.
    """

    def __init__(self, name: str, where: str, options: dict[str, Any]) -> None:
        self.name = name
        self.where = where
        self.options = options
        self._opened: list[Any] = []

    @property
    def spec(self) -> str:
        """What `Engine.of` makes the same engine of, in another process."""
        return json.dumps([self.name, self.where, self.options])

    @classmethod
    def of(cls, spec: str) -> Engine:
        """Make the engine that a spec names."""
        return cls(*json.loads(spec))

    def open(self, **options: Any) -> Any:
        """Open one more checkpointer on the same data."""
        kind = {"sqlite": "SqliteCheckpointer", "postgres": "PostgresCheckpointer", "redis": "RedisCheckpointer"}
        checkpointer = getattr(memory, kind[self.name])(self.where, **self.options, **options)
        self._opened.append(checkpointer)
        return checkpointer

    def close(self) -> None:
        """Close every checkpointer that was opened."""
        for checkpointer in self._opened:
            checkpointer.close()
