"""A file that grows by whole lines, shared with other threads and processes."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from io import RawIOBase
    from pathlib import Path
    from types import TracebackType
    from typing import Self

_BLOCK = 64 * 1024
_MAX_BLOCK = 16 * _BLOCK

if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int) -> None:
        os.lseek(fd, 2**31 - 2, os.SEEK_SET)  # a byte behind the data, which stays free to be read
        msvcrt.locking(fd, msvcrt.LK_LOCK, 1)

    def _unlock(fd: int) -> None:
        os.lseek(fd, 2**31 - 2, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX)

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


_sync: Any = getattr(os, "fdatasync", os.fsync)


class LineFile:
    """Appends lines to a file and replaces it as a whole, taking turns with every other writer of it.

    All writing is done inside ``with file:``, which waits for the other threads and processes and makes sure that the
    file is still the one that its path names. In between the file stays open, until nobody refers to this object.

    Args:
        path: the file; it and its folder are made by the first turn.
        fsync: whether what was written survives a loss of power.
    """

    def __init__(self, path: Path, *, fsync: bool) -> None:
        self.path = path
        self._name = str(path)
        self._fsync = fsync
        self._turn = threading.Lock()
        self._fd = -1
        self._identity: tuple[int, int] = (0, 0)
        self._size = 0
        self._whole_to = 0  # up to here there are only whole lines, as far as is known
        self._counted = (0, 0)  # bytes and the lines in them
        self._folder_synced = False

    def __enter__(self) -> Self:
        self._turn.acquire()
        try:
            self._lock_current()
        except BaseException:
            self._close()  # which gives the lock back too
            self._turn.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._fd >= 0:
                _unlock(self._fd)
        finally:
            self._turn.release()

    def __del__(self, close: Any = os.close) -> None:
        if self._fd >= 0:
            close(self._fd)

    # -- inside a turn ----------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return self._size

    def append(self, line: bytes) -> None:
        """Add one line; a line that another writer left unfinished is left behind.

        Args:
            line: without a line break in it.

        Raises:
            OSError: nothing was added.
        """
        before = self._size
        data = line + b"\n" if self._ends_whole() else b"\n" + line + b"\n"
        try:
            _write(self._fd, data)
            if self._fsync:
                self._sync()
        except BaseException:
            self._cut_back(before)
            raise
        self._size = self._whole_to = before + len(data)

    def count(self) -> int:
        """Return how many lines there are; only what was added since the last call is read."""
        counted, lines = self._counted
        if counted > self._size:
            counted = lines = 0
        while counted < self._size:
            block = self._read(counted, min(_MAX_BLOCK, self._size - counted))
            if not block:
                break
            counted, lines = counted + len(block), lines + block.count(b"\n")
        self._counted = (counted, lines)
        return lines

    def keep(self, lines: Iterable[tuple[int, int]]) -> None:
        """Drop all lines but some, at once: a crash leaves either the old file or the new one.

        Args:
            lines: where each begins and how many bytes it has, without its line break.
        """
        draft = self._draft
        fd = os.open(draft, _FLAGS | os.O_TRUNC, os.fstat(self._fd).st_mode & 0o777)
        try:
            _lock(fd)  # nobody can take a turn on the new file before this one is over
            for start, length in lines:
                _write(fd, self._read(start, length) + b"\n")
            if self._fsync:
                os.fsync(fd)
            os.replace(draft, self.path)  # noqa: PTH105
        except BaseException:
            os.close(fd)
            draft.unlink(missing_ok=True)
            raise
        self._close()
        self._adopt(fd)
        if self._fsync:
            sync_folder(self.path.parent)
            self._folder_synced = True

    def remove(self) -> None:
        """Delete the file, and what a writer that was killed may have left of a shorter one."""
        self.path.unlink(missing_ok=True)
        self._draft.unlink(missing_ok=True)
        self._close()
        if self._fsync:
            sync_folder(self.path.parent)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _lock_current(self) -> None:
        while True:
            if self._fd < 0:
                self._adopt(_open(self.path, sync=self._fsync))
            _lock(self._fd)
            try:
                found = os.stat(self._name)  # noqa: PTH116
            except FileNotFoundError:
                found = None
            if found is not None and (found.st_dev, found.st_ino) == self._identity:
                self._size = found.st_size
                return
            self._close()  # somebody replaced or deleted it

    @property
    def _draft(self) -> Path:
        return self.path.with_name(f".{self.path.name}.draft")

    def _adopt(self, fd: int) -> None:
        found = os.fstat(fd)
        self._fd, self._identity, self._size = fd, (found.st_dev, found.st_ino), found.st_size
        self._whole_to, self._counted, self._folder_synced = 0, (0, 0), False

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _ends_whole(self) -> bool:
        size = self._size
        return size in (0, self._whole_to) or self._read(size - 1, 1) == b"\n"

    def _read(self, start: int, count: int) -> bytes:
        os.lseek(self._fd, start, os.SEEK_SET)  # where it is written does not depend on this
        found = os.read(self._fd, count)
        while len(found) < count and (more := os.read(self._fd, count - len(found))):
            found += more
        return found

    def _sync(self) -> None:
        _sync(self._fd)
        if not self._folder_synced:
            sync_folder(self.path.parent)
            self._folder_synced = True

    def _cut_back(self, size: int) -> None:
        # If that fails too the line stays unfinished: readers skip it, and the next writer starts a new one.
        with suppress(OSError):
            os.ftruncate(self._fd, size)


class Line(NamedTuple):
    """A line, without its line break, and where it begins."""

    start: int
    content: bytes


def read_backwards(file: RawIOBase) -> Iterator[Line]:
    """Read the lines of a file, the last one first, taking only as much of it as is asked for.

    Args:
        file: opened for reading in binary mode, without a buffer.
    """
    stop = end = file.seek(0, os.SEEK_END)
    block_size, parts = _BLOCK, list[bytes]()
    while end:
        start = max(0, end - block_size)
        file.seek(start)
        first, *lines = (file.read(end - start) or b"").split(b"\n")
        end = start
        if lines:
            lines[-1] = b"".join([lines[-1], *reversed(parts)])
            parts = [first]
        else:
            parts.append(first)
            block_size = min(2 * block_size, _MAX_BLOCK)
        for line in reversed(lines):
            yield Line(stop - len(line), line)
            stop -= len(line) + 1
    yield Line(0, b"".join(reversed(parts)))


def sync_folder(folder: Path) -> None:
    """Let a new name in a folder survive a loss of power."""
    if os.name == "posix":  # elsewhere a folder can not be opened
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def make_folder(folder: Path, *, sync: bool) -> None:
    """Make a folder and those above it."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    if sync:
        for place in missing:
            sync_folder(place.parent)


_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def _open(path: Path, *, sync: bool) -> int:
    try:
        return os.open(path, _FLAGS, 0o600)
    except FileNotFoundError:
        make_folder(path.parent, sync=sync)
        return os.open(path, _FLAGS, 0o600)


def _write(fd: int, data: bytes) -> None:
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])
