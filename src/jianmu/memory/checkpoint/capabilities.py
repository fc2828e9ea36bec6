"""What a checkpoint backend may be able to do beyond saving and loading: one small protocol an ability.

A backend claims an ability by having its methods; callers ask with ``isinstance(checkpointer, HistoryCapable)``.
`AsyncTwins` gives a synchronous backend its asynchronous half.

A backend whose saves wait for nothing but this machine says so by the class attribute ``local = True``: the runner then
saves in line, which is quicker. Any other one is called in a worker thread, so that a slow network never stops the
event loop.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from jianmu.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from jianmu.memory.checkpoint.protocol import Envelope


@dataclass(frozen=True, kw_only=True)
class CheckpointInfo:
    """One checkpoint in a listing.

    Attributes:
        thread_id: the thread it belongs to.
        step: its tick number.
        created_at: when it was saved, timezone-aware; None when the backend does not keep it.
    """

    thread_id: str
    step: int
    created_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class ThreadLease:
    """The right to write one thread.

    Attributes:
        thread_id: the thread.
        token: the fencing number; each new lease of a thread has a higher one. A save by the holder of an older lease
            is refused with `jianmu.errors.StaleWriterError`.
    """

    thread_id: str
    token: int


@runtime_checkable
class HistoryCapable(Protocol):
    """Keeps more than the newest checkpoint."""

    def list_threads(self) -> list[str]:
        """Return all thread ids, sorted."""
        ...

    def list_checkpoints(
        self, thread_id: str, *, limit: int | None = None, before: int | None = None
    ) -> list[CheckpointInfo]:
        """List a thread's checkpoints, the last saved first.

        A step that was saved again counts once, where it was saved last.

        Args:
            thread_id: the thread; an unknown one has none.
            limit: at most this many.
            before: only steps lower than this one.
        """
        ...

    def get_checkpoint_at(self, thread_id: str, step: int) -> Envelope | None:
        """Load the checkpoint of one step (the one saved last, if it was saved twice), or None."""
        ...


@runtime_checkable
class ForkCapable(Protocol):
    """Starts a new thread from a step of another one."""

    def fork(self, thread_id: str, step: int, new_thread_id: str) -> None:
        """Copy one checkpoint into a new thread, where it is the only one. The source is unchanged.

        Raises:
            CheckpointNotFoundError: the thread has no such step.
            CheckpointSaveError: the new thread already has checkpoints.
        """
        ...


@runtime_checkable
class DeleteCapable(Protocol):
    """Forgets a whole thread."""

    def delete_thread(self, thread_id: str) -> bool:
        """Delete every checkpoint of a thread.

        Returns:
            True if there was something to delete.
        """
        ...


@runtime_checkable
class PruneCapable(Protocol):
    """Drops old checkpoints."""

    def prune(
        self, thread_id: str, *, keep_last: int | None = None, older_than: datetime | timedelta | None = None
    ) -> int:
        """Drop old checkpoints of a thread; the one saved last always stays.

        Args:
            thread_id: the thread.
            keep_last: keep this many of those saved last, at least 1.
            older_than: drop only what was saved before this moment (timezone-aware) or longer ago than this span.
                With both arguments a checkpoint must fail both tests to be dropped.

        Returns:
            How many were dropped.

        Raises:
            ConfigurationError: neither argument is given, ``keep_last`` is below 1, or a naive datetime.
        """
        ...


@runtime_checkable
class LockCapable(Protocol):
    """Lets one writer at a time work on a thread."""

    def lock(self, thread_id: str) -> AbstractContextManager[ThreadLease]:
        """Take the thread for the length of a ``with`` block.

        The lock of a process that died is taken over. While it is held, saves through this checkpointer carry its
        fencing token, and saves by others are refused.

        Raises:
            ThreadLockedError: a living holder has it.
        """
        ...


@runtime_checkable
class AsyncCheckpointer(Protocol):
    """Can save and load without blocking the event loop."""

    async def asave_checkpoint(
        self,
        thread_id: str,
        step: int,
        state_dump: Mapping[str, Any],
        tree_state: Mapping[str, str] | None = None,
        runtime_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Do what ``save_checkpoint`` does, off the event loop."""
        ...

    async def aget_checkpoint(self, thread_id: str) -> Envelope | None:
        """Do what ``get_checkpoint`` does, off the event loop."""
        ...


class PruneRule:
    """Which checkpoints `PruneCapable.prune` keeps; its arguments are checked here.

    Args:
        keep_last: as there.
        older_than: as there.

    Raises:
        ConfigurationError: as there.
    """

    def __init__(self, keep_last: int | None, older_than: datetime | timedelta | None) -> None:
        if keep_last is None and older_than is None:
            raise ConfigurationError("prune needs keep_last, older_than or both")
        if keep_last is not None and keep_last < 1:
            raise ConfigurationError(f"keep_last is {keep_last}; the newest checkpoint always stays, so give 1 or more")
        if isinstance(older_than, timedelta):
            older_than = datetime.now(UTC) - older_than
        if older_than is not None and older_than.tzinfo is None:
            raise ConfigurationError(f"older_than is {older_than}, a datetime without a timezone; give it one")
        self._count = 1 if keep_last is None else keep_last
        self._since = older_than

    def keeps(self, index: int, saved_at: datetime | None) -> bool:
        """Tell whether a checkpoint stays.

        Args:
            index: its place in the listing, 0 for the one saved last.
            saved_at: when it was saved; None when that is not known: then it is not known to be old.
        """
        if index < self._count:
            return True
        return self._since is not None and (saved_at is None or saved_at >= self._since)


class AsyncTwins:
    """Asynchronous halves for a synchronous backend: each runs its twin in a worker thread.

    The backend inherits from this and is safe to call from several threads at once, as the contract asks anyway. Twins
    of abilities that the backend lacks fail as the missing method itself would.
    """

    async def asave_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """Do what ``save_checkpoint`` does, off the event loop."""
        await self._twin("save_checkpoint", *args, **kwargs)

    async def aget_checkpoint(self, thread_id: str) -> Envelope | None:
        """Do what ``get_checkpoint`` does, off the event loop."""
        return await self._twin("get_checkpoint", thread_id)

    async def aget_checkpoint_at(self, thread_id: str, step: int) -> Envelope | None:
        """Do what ``get_checkpoint_at`` does, off the event loop."""
        return await self._twin("get_checkpoint_at", thread_id, step)

    async def alist_threads(self) -> list[str]:
        """Do what ``list_threads`` does, off the event loop."""
        return await self._twin("list_threads")

    async def alist_checkpoints(self, thread_id: str, **kwargs: Any) -> list[CheckpointInfo]:
        """Do what ``list_checkpoints`` does, off the event loop."""
        return await self._twin("list_checkpoints", thread_id, **kwargs)

    async def afork(self, thread_id: str, step: int, new_thread_id: str) -> None:
        """Do what ``fork`` does, off the event loop."""
        await self._twin("fork", thread_id, step, new_thread_id)

    async def adelete_thread(self, thread_id: str) -> bool:
        """Do what ``delete_thread`` does, off the event loop."""
        return await self._twin("delete_thread", thread_id)

    async def aprune(self, thread_id: str, **kwargs: Any) -> int:
        """Do what ``prune`` does, off the event loop."""
        return await self._twin("prune", thread_id, **kwargs)

    async def _twin(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(getattr(self, method), *args, **kwargs)
