"""Ready-made sinks."""

from __future__ import annotations

import logging
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

if TYPE_CHECKING:
    import os

    from jianmu.events.bus import RuntimeEvent


class ListSink:
    """Keeps events in a list; for tests and small tools.

    Attributes:
        events: what was heard, oldest first.
    """

    inline: ClassVar[bool] = True

    def __init__(self) -> None:
        self.events: list[RuntimeEvent] = []

    def handle(self, event: RuntimeEvent) -> None:
        """Keep one event."""
        self.events.append(event)

    def of_type(self, pattern: str) -> list[RuntimeEvent]:
        """Return the events of a type; ``*`` stands for any text."""
        return [event for event in self.events if fnmatchcase(event.type, pattern)]


class JsonLinesSink:
    """Appends one JSON object a line to a file.

    Args:
        path: the file; it and its folder are made when the first event comes.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def handle(self, event: RuntimeEvent) -> None:
        """Append one event as a whole line."""
        line = orjson.dumps(asdict(event), default=repr, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab", buffering=0) as file:
            file.write(line)


class LoggingSink:
    """Writes events to a logger: failures as warnings, the rest at the given level.

    Args:
        logger: the logger; ``jianmu.run`` by default.
        level: level of ordinary events.
    """

    inline: ClassVar[bool] = True

    def __init__(self, logger: logging.Logger | None = None, level: int = logging.INFO) -> None:
        self._logger = logger or logging.getLogger("jianmu.run")
        self._level = level

    def handle(self, event: RuntimeEvent) -> None:
        """Log one event."""
        worrying = event.type.endswith((".failed", ".stalled", ".in_doubt"))
        extra: dict[str, Any] = {"jianmu_event": event}
        level = logging.WARNING if worrying else self._level
        self._logger.log(level, "%s %s", event.type, event.payload, extra=extra)
