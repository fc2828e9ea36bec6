"""What the lines of a thread's file say.

A line is an envelope with one field more, when it was saved; where the name of the file is too short to tell the
thread, one more tells that.
"""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import orjson

from jianmu.memory.checkpoint.envelope import comes_back, copied, extract_checkpoint_payload, write_envelope
from jianmu.memory.checkpoint.file.lines import read_backwards
from jianmu.memory.checkpoint.file.names import full_stem_of, is_cut, stem_of, thread_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from jianmu.memory.checkpoint.capabilities import PruneRule
    from jianmu.memory.checkpoint.protocol import Envelope

_SAVED_AT, _STEM = "saved_at", "thread_stem"


class StoredLine(NamedTuple):
    """A line that is JSON: where it begins, how many bytes it has, and what it says."""

    start: int
    length: int
    value: Any


class KnownState:
    """The lists of the state that was saved last, to look only at what is new in the next one.

    They are copies, so that nobody can change them, and came back equal from JSON: what equals them does so too.
    """

    def __init__(self) -> None:
        self._lists: dict[str, list[Any]] = {}

    def comes_back(self, state: dict[str, Any]) -> bool:
        """Tell whether a state comes back equal from JSON, and remember it."""
        known, self._lists = self._lists, {}
        try:
            return all(
                self._list_comes_back(key, cast("list[Any]", value), known.get(key, []))
                if type(value) is list
                else comes_back(value)
                for key, value in state.items()
            )
        except TypeError:
            return False

    def _list_comes_back(self, key: str, value: list[Any], known: list[Any]) -> bool:
        if value[: len(known)] != known:
            known = []
        new = value[len(known) :]
        if new and not comes_back(new):
            return False
        self._lists[key] = known + copied(new)
        return True


def write_line(thread_id: str, envelope: Envelope, *, state_is_json: bool) -> bytes:
    """Write an envelope as a line.

    Args:
        thread_id: the thread.
        envelope: the envelope; it gets the line's own fields.
        state_is_json: as in `write_envelope`.

    Raises:
        SerializationError: a value would not come back equal; names its path.
    """
    envelope[_SAVED_AT] = datetime.now(UTC).isoformat()
    if is_cut(stem_of(thread_id)):
        envelope[_STEM] = full_stem_of(thread_id)
    return write_envelope(envelope, state_is_json=state_is_json)


def envelope_of(line: StoredLine) -> Envelope | None:
    """Return the envelope that was saved; None when the line is none."""
    envelope = extract_checkpoint_payload(line.value)
    if envelope is not None:
        envelope.pop(_SAVED_AT, None)
        envelope.pop(_STEM, None)
    return envelope


def saved_at(line: StoredLine) -> datetime | None:
    """Return when a checkpoint was saved; None when another program wrote the line."""
    try:
        moment = datetime.fromisoformat(line.value[_SAVED_AT])
    except (KeyError, TypeError, ValueError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def read_lines(path: Path) -> Iterator[StoredLine]:
    """Read the lines of a file that are JSON, the last one first; none when there is no file."""
    try:
        file = path.open("rb", buffering=0)
    except FileNotFoundError:
        return
    with file:
        for start, content in read_backwards(file):
            try:
                value = _read_json(content)
            except (ValueError, RecursionError):
                continue  # a crash cut it off
            yield StoredLine(start, len(content), value)


def read_checkpoints(path: Path) -> Iterator[StoredLine]:
    """Read the checkpoints of a file, the last saved first, each step once."""
    seen: set[int] = set()
    for line in read_lines(path):
        envelope = extract_checkpoint_payload(line.value)
        if envelope is not None and envelope["step"] not in seen:
            seen.add(envelope["step"])
            yield line


def choose(newest_first: Iterable[StoredLine], rule: PruneRule) -> tuple[list[tuple[int, int]], int]:
    """Return where the checkpoints stand that a rule keeps, in the order of the file, and how many it drops."""
    kept: list[tuple[int, int]] = []
    dropped, moment = 0, None
    for index, line in enumerate(newest_first):
        moment = saved_at(line) or moment  # a line without its time is as old as the next one at least
        if rule.keeps(index, moment):
            kept.append((line.start, line.length))
        else:
            dropped += 1
    return kept[::-1], dropped


def has_content(path: Path) -> bool:
    """Tell whether a path is a file with something in it; one that was just deleted has nothing."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size > 0


def thread_in(path: Path) -> str | None:
    """Return the thread whose file this is; None when it is not one of ours."""
    stem = path.name.removesuffix(".jsonl")
    if not is_cut(stem):
        return thread_of(stem)
    for line in read_lines(path):
        whole = line.value.get(_STEM) if isinstance(line.value, dict) else None  # pyright: ignore[reportUnknownVariableType]
        if isinstance(whole, str):
            return thread_of(whole)
    return None


def _read_json(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except ValueError:
        return json.loads(line)  # it also reads NaN and lone surrogates, as another program may have written them
