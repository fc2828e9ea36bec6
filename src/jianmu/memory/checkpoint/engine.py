"""A checkpointer over rows: what SQLite, PostgreSQL and Redis have in common.

`EngineCheckpointer` decides what is stored and knows every ability; an engine brings only `Rows`, its storage.
"""

# Values of any type pass through here, so "partially unknown" is the normal case and says nothing.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

from jianmu.errors import (
    CheckpointError,
    CheckpointLoadError,
    CheckpointNotFoundError,
    CheckpointSaveError,
    SerializationError,
)
from jianmu.memory.checkpoint.capabilities import AsyncTwins, CheckpointInfo, PruneRule
from jianmu.memory.checkpoint.delta import (
    Baseline,
    Baselines,
    KeyframeRule,
    Picture,
    Position,
    Row,
    read_chain,
)
from jianmu.memory.checkpoint.envelope import extract_checkpoint_payload, make_checkpoint_envelope
from jianmu.memory.checkpoint.leases import LeaseRows, Leases

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from datetime import timedelta
    from types import TracebackType
    from typing import Self

    from jianmu.memory.checkpoint.capabilities import ThreadLease
    from jianmu.memory.checkpoint.protocol import Envelope


_STEPS = 2**63  # storage keeps signed numbers of 64 bits


class StoredChain(NamedTuple):
    """A keyframe and its patches up to one row, and where that row stands."""

    position: Position
    bodies: Sequence[bytes]


class StoredRow(NamedTuple):
    """One visible checkpoint: its row's number, its step and when it was saved, in seconds since the epoch."""

    number: int
    step: int
    saved_at: float


class Rows(LeaseRows, Protocol):
    """One engine's storage. Each method is atomic and may be called from any thread."""

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What the engine's client raises when it can not do its work."""
        ...

    def append(
        self, thread_id: str, previous: Position, step: int, body: bytes, token: int | None, *, whole: bool
    ) -> Position | None:
        """Store a row, if ``previous`` is still the thread's newest one and the lease allows it; else return None.

        Args:
            thread_id: the thread.
            previous: the row that a patch builds on.
            step: the tick number.
            body: an envelope or a patch, as JSON.
            token: the fencing token, if the saver holds a lease.
            whole: whether the body is an envelope.
        """
        ...

    def begin(self, thread_id: str, step: int, body: bytes, token: int | None, *, only_first: bool = False) -> Position:
        """Store a whole envelope behind the thread's newest row, whichever that is.

        Args:
            thread_id: the thread; made when it is new.
            step: the tick number.
            body: the envelope as JSON.
            token: the fencing token, if the saver holds a lease.
            only_first: refuse with `CheckpointSaveError` if the thread has checkpoints.

        Raises:
            StaleWriterError: the lease of this token was lost.
            ThreadLockedError: another holder has the thread.
        """
        ...

    def chain(self, thread_id: str, step: int | None = None) -> StoredChain | None:
        """Return the chain that ends in the thread's newest row, or in the one of a step that was saved last."""
        ...

    def threads(self) -> list[str]:
        """Return the ids of all threads that have checkpoints."""
        ...

    def listing(self, thread_id: str, limit: int | None, before: int | None) -> list[StoredRow]:
        """Return a thread's checkpoints, the last saved first, each step once."""
        ...

    def cut(self, thread_id: str, first: Position, body: bytes) -> None:
        """Drop the rows before one row, which becomes a keyframe with this body; nothing happens if it is gone."""
        ...

    def delete(self, thread_id: str) -> bool:
        """Delete a thread's rows; tell whether there were any."""
        ...

    def close(self) -> None:
        """Give back connections."""
        ...


class EngineCheckpointer(AsyncTwins):
    """Saves what changed, reads any step, forks, prunes, deletes and locks, over an engine's rows.

    Args:
        rows: the engine's storage.
        keyframe_every: a whole snapshot every this many saves; None chooses by size.
        lease_ttl: seconds after which the lock of a holder that no longer renews it may be taken over.
    """

    stores_changes = True
    """A save costs what changed; a wrapper that only ever adds to a list keeps it so."""

    def __init__(self, rows: Rows, *, keyframe_every: int | None, lease_ttl: float) -> None:
        self._rows = rows
        self._rule = KeyframeRule(keyframe_every)
        self._leases = Leases(rows, lease_ttl)
        self._baselines: Baselines[Baseline] = Baselines()

    def save_checkpoint(
        self,
        thread_id: str,
        step: int,
        state_dump: Mapping[str, Any],
        tree_state: Mapping[str, str] | None = None,
        runtime_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Store one snapshot: what changed since the one before, or all of it when a keyframe is due.

        Args:
            thread_id: the stable name of the run.
            step: the tick number.
            state_dump: what ``StateManager.dump_checkpoint()`` returned, or any JSON-safe dict.
            tree_state: node path to Status name.
            runtime_metadata: what the runner needs beside state and tree.

        Raises:
            CheckpointSaveError: nothing was stored; the previous checkpoint is intact.
            StaleWriterError: the lock under which this was saved was lost.
            ThreadLockedError: another checkpointer holds the thread's lock.
        """
        envelope = make_checkpoint_envelope(step, state_dump, tree_state, runtime_metadata)
        with self._saving(thread_id, step):
            picture = Picture(envelope, state_dump)
            if type(step) is not int or not -_STEPS <= step < _STEPS:
                raise SerializationError("step", f"{step!r} is no whole number of at most 64 bits")
            self._save(thread_id, envelope, picture)

    def get_checkpoint(self, thread_id: str) -> Envelope | None:
        """Load the snapshot that was saved last; its cost does not depend on how many there are.

        Raises:
            CheckpointLoadError: the storage failed, or what it holds is damaged.
        """
        with self._loading(thread_id):
            stored = self._rows.chain(thread_id)
            if stored is None:
                return None
            self._baselines.put(thread_id, Baseline.stored(*stored))
            return extract_checkpoint_payload(read_chain(stored.bodies))

    def get_checkpoint_at(self, thread_id: str, step: int) -> Envelope | None:
        """Load the checkpoint of one step (the one saved last, if it was saved twice), or None."""
        with self._loading(thread_id, step):
            stored = self._chain_at(thread_id, step)
            return None if stored is None else extract_checkpoint_payload(read_chain(stored.bodies))

    def list_threads(self) -> list[str]:
        """Return all thread ids, sorted."""
        with self._loading():
            return sorted(self._rows.threads())

    def list_checkpoints(
        self, thread_id: str, *, limit: int | None = None, before: int | None = None
    ) -> list[CheckpointInfo]:
        """List a thread's checkpoints, the last saved first; a step that was saved again counts once.

        Args:
            thread_id: the thread; an unknown one has none.
            limit: at most this many.
            before: only steps lower than this one.
        """
        with self._loading(thread_id):
            return [
                CheckpointInfo(thread_id=thread_id, step=row.step, created_at=_moment(row.saved_at))
                for row in self._rows.listing(
                    thread_id, limit, before if before is not None and before < _STEPS else None
                )
            ]

    def fork(self, thread_id: str, step: int, new_thread_id: str) -> None:
        """Copy one checkpoint into a new thread, where it is the only one. The source is unchanged.

        Raises:
            CheckpointNotFoundError: the thread has no such step.
            CheckpointSaveError: the new thread already has checkpoints.
        """
        with self._loading(thread_id, step):
            stored = self._chain_at(thread_id, step)
            body = b"" if stored is None else orjson.dumps(read_chain(stored.bodies))
        if stored is None:
            raise CheckpointNotFoundError("there is no such checkpoint to fork from", thread_id=thread_id, step=step)
        with self._saving(new_thread_id, step):
            self._rows.begin(new_thread_id, step, body, self._leases.token(new_thread_id), only_first=True)

    def delete_thread(self, thread_id: str) -> bool:
        """Delete every checkpoint of a thread; return True if there was something to delete."""
        self._baselines.drop(thread_id)
        with self._saving(thread_id):
            return self._rows.delete(thread_id)

    def prune(
        self, thread_id: str, *, keep_last: int | None = None, older_than: datetime | timedelta | None = None
    ) -> int:
        """Drop old checkpoints of a thread; the one saved last always stays, and each kept one stays readable.

        Args:
            thread_id: the thread.
            keep_last: how many of those saved last to keep.
            older_than: a moment or a span; what was saved since then is kept. What fails both tests is dropped.

        Returns:
            How many were dropped.

        Raises:
            ConfigurationError: the arguments make no sense.
        """
        rule = PruneRule(keep_last, older_than)
        with self._loading(thread_id):
            rows = self._rows.listing(thread_id, None, None)
            kept = [row for index, row in enumerate(rows) if rule.keeps(index, _moment(row.saved_at))]
            first = min(kept, key=lambda row: row.number, default=None)
            dropped = [row for row in rows if first is not None and row.number < first.number]
            stored = self._rows.chain(thread_id, first.step) if first is not None and dropped else None
            body = b"" if stored is None else orjson.dumps(read_chain(stored.bodies))
        if first is None or stored is None or stored.position.number != first.number:
            return 0  # there is nothing to drop, or somebody else pruned or saved this step meanwhile
        with self._saving(thread_id):
            self._rows.cut(thread_id, stored.position, body)
        return len(dropped)

    @contextmanager
    def lock(self, thread_id: str) -> Generator[ThreadLease]:
        """Take the thread for the length of a ``with`` block.

        Saves through this checkpointer then carry the lock's fencing token; saves by others are refused. A daemon
        thread renews the lock. That of a process of this machine that died is taken over at once, that of another
        machine when its time is over.

        Raises:
            ThreadLockedError: a living holder has it.
        """
        with self._saving(thread_id):
            lease = self._leases.take(thread_id)
        try:
            yield lease
        finally:
            self._leases.give_back(lease)

    def close(self) -> None:
        """Give back connections. The checkpointer can not be used afterwards."""
        self._rows.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- inside -------------------------------------------------------------------------------------------------

    def _save(self, thread_id: str, envelope: Envelope, picture: Picture) -> None:
        baseline = self._baselines.get(thread_id) or self._stored_baseline(thread_id)
        row = Row.keyframe(envelope) if baseline is None else self._rule.next_row(baseline, envelope, picture)
        token, step, position = self._leases.token(thread_id), envelope["step"], None
        if baseline is not None:
            position = self._rows.append(thread_id, baseline.position, step, row.body, token, whole=row.whole)
        if position is None:
            # The first one, or somebody else wrote meanwhile: a whole envelope needs no base.
            row = row if row.whole else Row.keyframe(envelope)
            position = self._rows.begin(thread_id, step, row.body, token)
        self._baselines.put(thread_id, Baseline(position, row.chain, picture))

    def _chain_at(self, thread_id: str, step: int) -> StoredChain | None:
        return self._rows.chain(thread_id, step) if -_STEPS <= step < _STEPS else None

    def _stored_baseline(self, thread_id: str) -> Baseline | None:
        stored = self._rows.chain(thread_id)
        return None if stored is None else Baseline.stored(*stored)

    @contextmanager
    def _saving(self, thread_id: str, step: int | None = None) -> Generator[None]:
        try:
            yield
        except CheckpointError:
            raise
        except SerializationError as error:
            raise CheckpointSaveError(str(error), thread_id=thread_id, step=step) from error
        except self._rows.failures as error:
            raise CheckpointSaveError(f"the storage refused it: {error}", thread_id=thread_id, step=step) from error

    @contextmanager
    def _loading(self, thread_id: str | None = None, step: int | None = None) -> Generator[None]:
        try:
            yield
        except CheckpointLoadError as error:
            raise CheckpointLoadError(str(error), thread_id=thread_id, step=step) from error
        except self._rows.failures as error:
            raise CheckpointLoadError(f"the storage failed: {error}", thread_id=thread_id, step=step) from error


def _moment(saved_at: float) -> datetime:
    return datetime.fromtimestamp(saved_at, UTC)
