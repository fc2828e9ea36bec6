"""One runner per thread."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from jianmu.errors import ThreadLockedError
from jianmu.memory.checkpoint.capabilities import LockCapable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from jianmu.memory.checkpoint.protocol import CheckpointerProtocol

_held: set[tuple[int, str]] = set()


@asynccontextmanager
async def thread_lock(checkpointer: CheckpointerProtocol | None, thread_id: str) -> AsyncGenerator[None]:
    """Hold a thread for the length of an ``async with`` block.

    A checkpointer that can lock does so across processes; for any other one the lock holds within this process.

    Args:
        checkpointer: where the thread is saved; None needs no lock.
        thread_id: the thread.

    Raises:
        ThreadLockedError: another runner holds it.
    """
    if checkpointer is None:
        yield
    elif not isinstance(checkpointer, LockCapable):
        async with _process_lock(checkpointer, thread_id):
            yield
    elif getattr(checkpointer, "local", False):
        with checkpointer.lock(thread_id):
            yield
    else:
        lock = checkpointer.lock(thread_id)
        await asyncio.to_thread(lock.__enter__)
        try:
            yield
        finally:
            await asyncio.to_thread(lock.__exit__, None, None, None)


@asynccontextmanager
async def _process_lock(checkpointer: CheckpointerProtocol, thread_id: str) -> AsyncGenerator[None]:
    key = (id(checkpointer), thread_id)
    if key in _held:
        raise ThreadLockedError(
            "another runner in this process works on it; wait for it or stop it", thread_id=thread_id
        )
    _held.add(key)
    try:
        yield
    finally:
        _held.discard(key)
