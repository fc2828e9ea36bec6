"""Writes snapshots to a checkpointer, in order, as durably as asked, without blocking the event loop on a network."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from jianmu.errors import CheckpointError, CheckpointSaveError
from jianmu.events import CheckpointFailed, CheckpointSaved, emit
from jianmu.memory.checkpoint.capabilities import AsyncCheckpointer

if TYPE_CHECKING:
    from collections.abc import Callable

    from jianmu.config import Durability
    from jianmu.memory.checkpoint.protocol import CheckpointerProtocol


class Snapshot(NamedTuple):
    """One moment of a run, ready to be written: later changes of the run do not reach it."""

    step: int
    state: dict[str, Any]
    tree: dict[str, str]
    metadata: dict[str, Any]


class CheckpointSaver:
    """Saves one run.

    Args:
        checkpointer: where snapshots go.
        thread_id: the run's thread.
        durability: ``"sync"`` saves each tick before the next one; ``"async"`` saves it while the next one runs;
            ``"exit"`` saves only when the run ends or is suspended. Before an external effect everything is saved
            under each of them.
        take: takes a snapshot of the run as it is now.
    """

    def __init__(
        self,
        checkpointer: CheckpointerProtocol,
        thread_id: str,
        durability: Durability,
        take: Callable[[], Snapshot],
    ) -> None:
        self._checkpointer = checkpointer
        self._thread_id = thread_id
        self._durability = durability
        self._take = take
        self._turn = asyncio.Lock()
        self._queued: asyncio.Task[None] | None = None
        self._background: asyncio.Task[None] | None = None
        self.saved_step: int | None = None
        self.closed = False

    async def after_tick(self) -> None:
        """Save the tick that has just ended, as the durability asks."""
        if self._durability == "exit":
            return
        snapshot = self._take()
        await self.settle()
        if self._durability == "async":
            self._background = asyncio.create_task(self._write(snapshot, forced=False))
            self._background.add_done_callback(_note_outcome)
        else:
            await self._write(snapshot, forced=False)

    async def now(self) -> None:
        """Save the run as it is; many callers at one time share one save.

        Raises:
            CheckpointSaveError: nothing was saved.
        """
        if self._queued is None:
            self._queued = asyncio.create_task(self._take_turn())
            self._queued.add_done_callback(_note_outcome)
        await _outcome(self._queued)

    async def settle(self) -> None:
        """Wait until a save in the background is done, and raise what it raised."""
        background, self._background = self._background, None
        if background is not None:
            await _outcome(background)

    async def _take_turn(self) -> None:
        async with self._turn:
            self._queued = None
            if self.closed:
                raise CheckpointSaveError("the run is over; nothing is saved any more", thread_id=self._thread_id)
            await self._write_in_turn(self._take(), forced=True)

    async def _write(self, snapshot: Snapshot, *, forced: bool) -> None:
        async with self._turn:
            await self._write_in_turn(snapshot, forced=forced)

    async def _write_in_turn(self, snapshot: Snapshot, *, forced: bool) -> None:
        checkpointer, thread_id = self._checkpointer, self._thread_id
        step, state, tree, metadata = snapshot
        try:
            if isinstance(checkpointer, AsyncCheckpointer) and not getattr(checkpointer, "local", False):
                await checkpointer.asave_checkpoint(thread_id, step, state, tree, metadata)
            else:
                checkpointer.save_checkpoint(thread_id, step, state, tree, metadata)
        except Exception as error:
            emit(CheckpointFailed(thread_id=thread_id, step=step, error=repr(error)))
            if isinstance(error, CheckpointError):
                raise
            message = f"{type(checkpointer).__name__} raised {error!r}"
            raise CheckpointSaveError(message, thread_id=thread_id, step=step) from error
        self.saved_step = step
        emit(CheckpointSaved(thread_id=thread_id, step=step, forced=forced))


async def _outcome(save: asyncio.Task[None]) -> None:
    """Wait for a save; it goes on when whoever waits is cancelled."""
    await asyncio.wait([save])
    save.result()


def _note_outcome(save: asyncio.Task[None]) -> None:
    """Look at the outcome, so that asyncio does not complain when nobody waits for it any more."""
    if not save.cancelled():
        save.exception()
