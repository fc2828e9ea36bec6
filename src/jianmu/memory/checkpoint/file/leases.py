"""The right to write one thread's file: a kernel lock on a file beside it, and a number that grows."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filelock import FileLock, Timeout

from jianmu.errors import StaleWriterError, ThreadLockedError
from jianmu.memory.checkpoint.capabilities import ThreadLease

if TYPE_CHECKING:
    from collections.abc import Generator


class LeaseFiles(NamedTuple):
    """The files beside a thread's own: the one that is locked, and the one with the number."""

    lock: str
    token: str


class FileLeases:
    """The leases that one checkpointer holds.

    The kernel gives a lock back when its holder dies, however that happens. The number stands in a file of its own,
    which also tells who took the lock last.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, int, int]] = {}  # thread to what its number's file looked like

    def take(self, thread_id: str, files: LeaseFiles) -> tuple[ThreadLease, FileLock]:
        """Take a thread.

        Raises:
            ThreadLockedError: a living holder has it.
        """
        lock = _kernel_lock(files.lock)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise _locked(thread_id, files) from None
        try:
            # Microseconds since 1970: numbers grow even when a deleted thread is begun again.
            token = max(_last_lease(files.token).token + 1, time.time_ns() // 1000)
            _note(files.token, _Last(token, os.getpid()))
            self._held[thread_id] = _look_of(files.token)
        except BaseException:
            lock.release()
            raise
        return ThreadLease(thread_id=thread_id, token=token), lock

    def give_back(self, lease: ThreadLease, lock: FileLock) -> None:
        """Let others have the thread."""
        self._held.pop(lease.thread_id, None)
        lock.release()

    def holds(self, thread_id: str) -> bool:
        """Tell whether a thread was taken here."""
        return thread_id in self._held

    def check(self, thread_id: str, files: LeaseFiles) -> None:
        """Refuse to save a thread that is not ours to save.

        Raises:
            StaleWriterError: it was taken here, but somebody else took it over.
            ThreadLockedError: it was not taken here, and a living holder has it.
        """
        taken = self._held.get(thread_id)
        if taken is None:
            if os.access(files.lock, os.F_OK):
                with unlocked(thread_id, files):
                    pass
        elif taken != _look_of(files.token):
            raise StaleWriterError(
                "its lock was lost to another writer; load the thread again before going on", thread_id=thread_id
            )


@contextmanager
def unlocked(thread_id: str, files: LeaseFiles) -> Generator[None]:
    """Make sure that nobody holds a thread, and that nobody takes it inside the block.

    Raises:
        ThreadLockedError: somebody holds it.
    """
    lock = _kernel_lock(files.lock)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise _locked(thread_id, files) from None
    try:
        yield
    finally:
        lock.release()


def _kernel_lock(path: str) -> FileLock:
    # Taken in one thread and given back in another when it is used by way of asyncio.to_thread.
    return FileLock(path, thread_local=False, mode=0o600)


class _Last(NamedTuple):
    """Who took a thread last, as its number's file tells."""

    token: int
    pid: int | None


def _last_lease(path: str) -> _Last:
    try:
        token, pid = map(int, Path(path).read_text("ascii").split())
    except (FileNotFoundError, ValueError):  # it was damaged: then the machine fell, and nobody holds the thread
        return _Last(0, None)
    return _Last(token, pid)


def _note(path: str, last: _Last) -> None:
    draft = Path(f"{path}.draft")
    draft.write_text(f"{last.token} {last.pid}\n", "ascii")
    draft.replace(path)


def _look_of(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116
    except FileNotFoundError:
        return (0, 0, 0)
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _locked(thread_id: str, files: LeaseFiles) -> ThreadLockedError:
    pid = _last_lease(files.token).pid
    holder = "another runner" if pid is None else f"another runner (process {pid})"
    return ThreadLockedError(f"{holder} works on it; let it finish or stop it, then try again", thread_id=thread_id)
