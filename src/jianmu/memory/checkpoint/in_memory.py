"""Checkpoints in a dict: the definition of every ability, in code."""

from __future__ import annotations

import copy
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from jianmu.errors import CheckpointNotFoundError, CheckpointSaveError, ConfigurationError, ThreadLockedError
from jianmu.memory.checkpoint.capabilities import AsyncTwins, CheckpointInfo, ThreadLease
from jianmu.memory.checkpoint.envelope import extract_checkpoint_payload, make_checkpoint_envelope

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from jianmu.memory.checkpoint.protocol import Envelope


class _Saved(NamedTuple):
    envelope: Envelope
    at: datetime


class InMemoryCheckpointer(AsyncTwins):
    """Keeps every checkpoint in this process; for tests and short sessions.

    What is saved and what is read are deep copies: nothing outside can change what is stored.
    """

    local: ClassVar[bool] = True

    def __init__(self) -> None:
        self._threads: dict[str, list[_Saved]] = {}
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
        """Store a deep copy of one snapshot."""
        envelope = copy.deepcopy(make_checkpoint_envelope(step, state_dump, tree_state, runtime_metadata))
        with self._guard:
            self._threads.setdefault(thread_id, []).append(_Saved(envelope, datetime.now(UTC)))

    def get_checkpoint(self, thread_id: str) -> Envelope | None:
        """Return a deep copy of the snapshot that was saved last."""
        with self._guard:
            saved = self._threads.get(thread_id)
            return None if not saved else extract_checkpoint_payload(copy.deepcopy(saved[-1].envelope))

    def list_threads(self) -> list[str]:
        """Return all thread ids, sorted."""
        with self._guard:
            return sorted(self._threads)

    def list_checkpoints(
        self, thread_id: str, *, limit: int | None = None, before: int | None = None
    ) -> list[CheckpointInfo]:
        """List a thread's checkpoints, the last saved first; a step that was saved again counts once."""
        with self._guard:
            newest_first = {saved.envelope["step"]: saved for saved in self._threads.get(thread_id, ())}
            order = list(dict.fromkeys(s.envelope["step"] for s in reversed(self._threads.get(thread_id, []))))
        steps = [step for step in order if before is None or step < before][:limit]
        return [CheckpointInfo(thread_id=thread_id, step=step, created_at=newest_first[step].at) for step in steps]

    def get_checkpoint_at(self, thread_id: str, step: int) -> Envelope | None:
        """Return a deep copy of the checkpoint of one step, the one saved last."""
        with self._guard:
            for saved in reversed(self._threads.get(thread_id, [])):
                if saved.envelope["step"] == step:
                    return extract_checkpoint_payload(copy.deepcopy(saved.envelope))
        return None

    def fork(self, thread_id: str, step: int, new_thread_id: str) -> None:
        """Copy one checkpoint into a new thread."""
        envelope = self.get_checkpoint_at(thread_id, step)
        if envelope is None:
            raise CheckpointNotFoundError("there is no such checkpoint to fork from", thread_id=thread_id, step=step)
        with self._guard:
            if self._threads.get(new_thread_id):
                raise CheckpointSaveError("it has checkpoints already; fork into a new thread", thread_id=new_thread_id)
            self._threads[new_thread_id] = [_Saved(envelope, datetime.now(UTC))]

    def delete_thread(self, thread_id: str) -> bool:
        """Delete every checkpoint of a thread."""
        with self._guard:
            return self._threads.pop(thread_id, None) is not None

    def prune(
        self, thread_id: str, *, keep_last: int | None = None, older_than: datetime | timedelta | None = None
    ) -> int:
        """Drop old checkpoints of a thread; the one saved last always stays."""
        if keep_last is None and older_than is None:
            raise ConfigurationError("prune needs keep_last, older_than or both")
        raise NotImplementedError

    @contextmanager
    def lock(self, thread_id: str) -> Generator[ThreadLease]:
        """Take the thread within this process."""
        with self._guard:
            if thread_id in self._locked:
                raise ThreadLockedError("another runner works on it; wait for it or stop it", thread_id=thread_id)
            self._locked.add(thread_id)
            self._tokens[thread_id] = self._tokens.get(thread_id, 0) + 1
            lease = ThreadLease(thread_id=thread_id, token=self._tokens[thread_id])
        try:
            yield lease
        finally:
            self._locked.discard(thread_id)
