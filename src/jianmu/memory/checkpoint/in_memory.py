"""Checkpoints in a dict: the definition of every ability, in code."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import orjson

from jianmu.errors import CheckpointNotFoundError, CheckpointSaveError, SerializationError, ThreadLockedError
from jianmu.memory.checkpoint.capabilities import AsyncTwins, CheckpointInfo, PruneRule, ThreadLease
from jianmu.memory.checkpoint.envelope import (
    copied,
    extract_checkpoint_payload,
    first_failure,
    is_json_dump,
    make_checkpoint_envelope,
    write_envelope,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from datetime import timedelta

    from jianmu.memory.checkpoint.protocol import Envelope


class _Saved(NamedTuple):
    envelope: Envelope | bytes
    at: datetime


class InMemoryCheckpointer(AsyncTwins):
    """Keeps every checkpoint in this process; for tests and short sessions.

    What is saved and what is read are deep copies: nothing outside can change what is stored. Unlike the others it
    keeps whatever can be copied, not only JSON data. Dumps of a state manager, which are JSON data, are kept as bytes:
    many thousands of small objects would slow down the whole process.
    """

    local: ClassVar[bool] = True

    def __init__(self) -> None:
        self._threads: dict[str, dict[int, _Saved]] = {}  # steps in the order in which they were saved last
        self._tokens: dict[str, int] = {}
        self._locked: set[str] = set()
        self._guard = threading.RLock()

    def save_checkpoint(
        self,
        thread_id: str,
        step: int,
        state_dump: Mapping[str, Any],
        tree_state: Mapping[str, str] | None = None,
        runtime_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Store a deep copy of one snapshot.

        Raises:
            CheckpointSaveError: a value can not be copied; names its path.
        """
        envelope = make_checkpoint_envelope(step, state_dump, tree_state, runtime_metadata)
        try:
            kept = _packed(envelope) if is_json_dump(state_dump) else copied(envelope)
        except Exception as error:
            where = first_failure(envelope, copied) or error
            raise CheckpointSaveError(str(where), thread_id=thread_id, step=step) from error
        with self._guard:
            steps = self._threads.setdefault(thread_id, {})
            steps.pop(step, None)
            steps[step] = _Saved(kept, datetime.now(UTC))

    def get_checkpoint(self, thread_id: str) -> Envelope | None:
        """Return a deep copy of the snapshot that was saved last."""
        return _read(next((saved for _, saved in self._newest_first(thread_id)), None))

    def list_threads(self) -> list[str]:
        """Return all thread ids, sorted."""
        with self._guard:
            return sorted(self._threads)

    def list_checkpoints(
        self, thread_id: str, *, limit: int | None = None, before: int | None = None
    ) -> list[CheckpointInfo]:
        """List a thread's checkpoints, the last saved first; a step that was saved again counts once."""
        infos = [
            CheckpointInfo(thread_id=thread_id, step=step, created_at=saved.at)
            for step, saved in self._newest_first(thread_id)
            if before is None or step < before
        ]
        return infos[:limit]

    def get_checkpoint_at(self, thread_id: str, step: int) -> Envelope | None:
        """Return a deep copy of the checkpoint of one step, the one saved last."""
        with self._guard:
            return _read(self._threads.get(thread_id, {}).get(step))

    def fork(self, thread_id: str, step: int, new_thread_id: str) -> None:
        """Copy one checkpoint into a new thread.

        Raises:
            CheckpointNotFoundError: the thread has no such step.
            CheckpointSaveError: the new thread already has checkpoints.
        """
        envelope = self.get_checkpoint_at(thread_id, step)
        if envelope is None:
            raise CheckpointNotFoundError("there is no such checkpoint to fork from", thread_id=thread_id, step=step)
        with self._guard:
            if new_thread_id in self._threads:
                raise CheckpointSaveError("it has checkpoints already; fork into a new thread", thread_id=new_thread_id)
            self._threads[new_thread_id] = {step: _Saved(envelope, datetime.now(UTC))}

    def delete_thread(self, thread_id: str) -> bool:
        """Delete every checkpoint of a thread; return True if there was something to delete."""
        with self._guard:
            return self._threads.pop(thread_id, None) is not None

    def prune(
        self, thread_id: str, *, keep_last: int | None = None, older_than: datetime | timedelta | None = None
    ) -> int:
        """Drop old checkpoints of a thread; the one saved last always stays.

        Args:
            thread_id: the thread.
            keep_last: keep this many of those saved last, at least 1.
            older_than: drop only what was saved before this moment (timezone-aware) or longer ago than this span.

        Returns:
            How many were dropped.

        Raises:
            ConfigurationError: neither argument is given, ``keep_last`` is below 1, or a naive datetime.
        """
        rule = PruneRule(keep_last, older_than)
        with self._guard:
            ordered = enumerate(self._newest_first(thread_id))
            dropped = [step for index, (step, saved) in ordered if not rule.keeps(index, saved.at)]
            for step in dropped:
                del self._threads[thread_id][step]
        return len(dropped)

    @contextmanager
    def lock(self, thread_id: str) -> Generator[ThreadLease]:
        """Take the thread within this process, for the length of a ``with`` block.

        Raises:
            ThreadLockedError: somebody else has it.
        """
        with self._guard:
            if thread_id in self._locked:
                raise ThreadLockedError("another runner works on it; wait for it or stop it", thread_id=thread_id)
            self._locked.add(thread_id)
            token = self._tokens[thread_id] = self._tokens.get(thread_id, 0) + 1
        try:
            yield ThreadLease(thread_id=thread_id, token=token)
        finally:
            self._locked.discard(thread_id)

    def _newest_first(self, thread_id: str) -> list[tuple[int, _Saved]]:
        with self._guard:
            return list(self._threads.get(thread_id, {}).items())[::-1]


def _packed(envelope: Envelope) -> Envelope | bytes:
    try:
        return write_envelope(envelope, state_is_json=True)
    except SerializationError:
        return copied(envelope)  # tree or metadata hold something else


def _read(saved: _Saved | None) -> Envelope | None:
    if saved is None:
        return None
    # What is stored is never changed, so it can be copied outside the guard.
    stored = saved.envelope
    return extract_checkpoint_payload(orjson.loads(stored) if isinstance(stored, bytes) else copied(stored))
