"""FileCheckpointer: one JSON-lines file a thread, one line a save."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from jianmu.errors import (
    CheckpointLoadError,
    CheckpointNotFoundError,
    CheckpointSaveError,
    ConfigurationError,
    SerializationError,
    ThreadLockedError,
)
from jianmu.memory.checkpoint.capabilities import AsyncTwins, CheckpointInfo, PruneRule
from jianmu.memory.checkpoint.envelope import is_json_dump, make_checkpoint_envelope
from jianmu.memory.checkpoint.file.leases import FileLeases, LeaseFiles, unlocked
from jianmu.memory.checkpoint.file.lines import LineFile, make_folder
from jianmu.memory.checkpoint.file.names import stem_of
from jianmu.memory.checkpoint.file.stored import (
    KnownState,
    choose,
    envelope_of,
    has_content,
    read_checkpoints,
    read_lines,
    saved_at,
    thread_in,
    write_line,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from datetime import datetime, timedelta

    from filelock import FileLock

    from jianmu.memory.checkpoint.capabilities import ThreadLease
    from jianmu.memory.checkpoint.protocol import Envelope

_log = logging.getLogger("jianmu.checkpoint")
_MAX_KEPT = 64


class _Kept(NamedTuple):
    """What is kept of a thread between two saves: its file, open, and what is known of it."""

    file: LineFile
    known: KnownState
    lease: LeaseFiles


class FileCheckpointer(AsyncTwins):
    """Keeps each thread in a file of JSON lines; every save appends one line, reading looks at the end only.

    Threads of this process and other processes may write one thread at the same time: each line is whole. A line that
    a crash left unfinished is skipped, and the next save starts a new one. Files are readable for their owner alone.

    Args:
        directory: the folder; made by the first save.
        fsync: whether a save that returned survives a loss of power. Without it a save still survives the crash of the
            process.
        keep_last: keep this many checkpoints of a thread: its file is replaced by a shorter one whenever it has more
            than twice as many. None keeps all.

    Raises:
        ConfigurationError: ``keep_last`` is below 1.

    Example:
        >>> checkpointer = FileCheckpointer("checkpoints", keep_last=100)  # doctest: +SKIP
        >>> checkpointer.save_checkpoint("session-42", 1, {"topic": "tea"})  # doctest: +SKIP
        >>> checkpointer.get_checkpoint("session-42")["state"]  # doctest: +SKIP
        {'topic': 'tea'}
    """

    local: ClassVar[bool] = True

    def __init__(
        self,
        directory: str | os.PathLike[str] = ".outputs/jianmu/checkpoints",
        fsync: bool = True,
        keep_last: int | None = None,
    ) -> None:
        if keep_last is not None and keep_last < 1:
            raise ConfigurationError(f"keep_last is {keep_last}; keep at least 1 checkpoint, or None for all")
        self.directory = Path(directory).absolute()  # a later chdir must not split a thread in two
        self._fsync = fsync
        self._keep_last = keep_last
        self._begin()
        _all.add(self)

    def save_checkpoint(
        self,
        thread_id: str,
        step: int,
        state_dump: Mapping[str, Any],
        tree_state: Mapping[str, str] | None = None,
        runtime_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Append one snapshot to the thread's file.

        Args:
            thread_id: the stable name of the run; any text that is not empty.
            step: the tick number.
            state_dump: what ``StateManager.dump_checkpoint()`` returned, or any dict of JSON data.
            tree_state: node path to Status name.
            runtime_metadata: what the runner needs beside state and tree.

        Raises:
            CheckpointSaveError: nothing was stored; names the path of a value that can not be.
            ThreadLockedError: another checkpointer holds the thread's lock.
            StaleWriterError: the lock under which this was saved was lost.
        """
        envelope = make_checkpoint_envelope(step, state_dump, tree_state, runtime_metadata)
        is_json = is_json_dump(state_dump)
        with self._saving(thread_id, step):
            file, known, lease = self._kept_of(thread_id)
            line = write_line(thread_id, envelope, state_is_json=is_json or known.comes_back(envelope["state"]))
            with file:
                self._leases.check(thread_id, lease)
                file.append(line)
                if self._keep_last is not None and file.count() > 2 * self._keep_last:
                    _shorten(file, self._keep_last)

    def get_checkpoint(self, thread_id: str) -> Envelope | None:
        """Load the snapshot that was saved last; its cost does not depend on how many there are.

        Lines that are no JSON are skipped. When the last one that is JSON is no envelope, this is None.

        Raises:
            CheckpointLoadError: the file can not be read.
        """
        with self._reading(thread_id) as path:
            newest = next(read_lines(path), None)
            return None if newest is None else envelope_of(newest)

    def list_threads(self) -> list[str]:
        """Return all thread ids, sorted."""
        try:
            with os.scandir(self.directory) as entries:
                files = [Path(entry.path) for entry in entries if entry.name.endswith(".jsonl")]
            return sorted(filter(None, map(thread_in, filter(has_content, files))))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CheckpointLoadError(f"{self.directory} can not be read ({error.strerror or error})") from error

    def list_checkpoints(
        self, thread_id: str, *, limit: int | None = None, before: int | None = None
    ) -> list[CheckpointInfo]:
        """List a thread's checkpoints, the last saved first; a step that was saved again counts once.

        The file is read from its end, until there are ``limit`` of them.
        """
        infos: list[CheckpointInfo] = []
        with self._reading(thread_id) as path:
            for line in read_checkpoints(path):
                if limit is not None and len(infos) >= limit:
                    break
                step = line.value["step"]
                if before is None or step < before:
                    infos.append(CheckpointInfo(thread_id=thread_id, step=step, created_at=saved_at(line)))
        return infos

    def get_checkpoint_at(self, thread_id: str, step: int) -> Envelope | None:
        """Load the checkpoint of one step (the one saved last, if it was saved twice), or None."""
        with self._reading(thread_id) as path:
            found = (line for line in read_checkpoints(path) if line.value["step"] == step)
            line = next(found, None)
            return None if line is None else envelope_of(line)

    def fork(self, thread_id: str, step: int, new_thread_id: str) -> None:
        """Copy one checkpoint into a new thread, where it is the only one. The source is unchanged.

        Raises:
            CheckpointNotFoundError: the thread has no such step.
            CheckpointSaveError: the new thread already has checkpoints.
        """
        envelope = self.get_checkpoint_at(thread_id, step)
        if envelope is None:
            raise CheckpointNotFoundError("there is no such checkpoint to fork from", thread_id=thread_id, step=step)
        with self._saving(new_thread_id, step):
            file, _, lease = self._kept_of(new_thread_id)
            line = write_line(new_thread_id, envelope, state_is_json=False)
            with file:
                self._leases.check(new_thread_id, lease)
                if next(read_checkpoints(file.path), None) is not None:
                    message = "it has checkpoints already; fork into a new thread"
                    raise CheckpointSaveError(message, thread_id=new_thread_id)
                file.append(line)

    def delete_thread(self, thread_id: str) -> bool:
        """Delete every checkpoint of a thread; return True if there was something to delete.

        This needs no lock. When nobody holds the thread's lock its files are deleted too.
        """
        if not self._path(thread_id).exists():
            return False
        with self._saving(thread_id), self._kept_of(thread_id).file as file:
            found = file.size > 0
            file.remove()
        self._forget_lock(thread_id)
        return found

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
        rule = PruneRule(keep_last, older_than)
        if not self._path(thread_id).exists():
            return 0
        with self._saving(thread_id), self._kept_of(thread_id).file as file:
            with self._reading(thread_id) as path:
                kept, dropped = choose(read_checkpoints(path), rule)
            if dropped:
                file.keep(kept)
            return dropped

    @contextmanager
    def lock(self, thread_id: str) -> Generator[ThreadLease]:
        """Take the thread for the length of a ``with`` block; saves by other checkpointers are refused meanwhile.

        The kernel keeps the lock, in a ``.lock`` file beside the thread's file, and frees it when its holder dies.

        Raises:
            ThreadLockedError: a living holder has it.
        """
        lease, held = self._take(thread_id)
        try:
            yield lease
        finally:
            self._leases.give_back(lease, held)

    def close(self) -> None:
        """Close the files that are kept open; the checkpointer stays usable."""
        with self._guard:
            self._kept.clear()

    # -- inside -----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Start with nothing open and nothing held; after a fork too, when all of that is the parent's."""
        self._kept: dict[str, _Kept] = {}
        self._guard = threading.Lock()
        self._leases = FileLeases()

    def _path(self, thread_id: str) -> Path:
        return self.directory / f"{stem_of(thread_id)}.jsonl"

    def _lease_files(self, thread_id: str) -> LeaseFiles:
        stem = str(self.directory / stem_of(thread_id))
        return LeaseFiles(f"{stem}.lock", f"{stem}.token")

    @contextmanager
    def _saving(self, thread_id: str, step: int | None = None) -> Generator[None]:
        try:
            yield
        except SerializationError as error:
            raise CheckpointSaveError(str(error), thread_id=thread_id, step=step) from error
        except OSError as error:
            message = f"{self._path(thread_id)} can not be written ({error.strerror or error}); it is as it was"
            raise CheckpointSaveError(message, thread_id=thread_id, step=step) from error

    def _kept_of(self, thread_id: str) -> _Kept:
        """Return what is kept of a thread; what is kept no more closes its file when nobody uses it any more."""
        kept = self._kept.get(thread_id)
        if kept is not None:
            return kept
        with self._guard:
            file = LineFile(self._path(thread_id), fsync=self._fsync)
            kept = self._kept.setdefault(thread_id, _Kept(file, KnownState(), self._lease_files(thread_id)))
            if len(self._kept) > _MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            return kept

    def _take(self, thread_id: str) -> tuple[ThreadLease, FileLock]:
        files = self._lease_files(thread_id)
        try:
            if self._path(thread_id).exists():
                with self._kept_of(thread_id).file:  # saves that are under way end first
                    return self._leases.take(thread_id, files)
            make_folder(self.directory, sync=self._fsync)
            return self._leases.take(thread_id, files)
        except OSError as error:
            message = f"{files.lock} can not be locked ({error.strerror or error})"
            raise CheckpointSaveError(message, thread_id=thread_id) from error

    def _forget_lock(self, thread_id: str) -> None:
        files = self._lease_files(thread_id)
        if Path(files.lock).exists() and not self._leases.holds(thread_id):
            with suppress(ThreadLockedError), unlocked(thread_id, files):
                Path(files.token).unlink(missing_ok=True)
                Path(files.lock).unlink(missing_ok=True)

    @contextmanager
    def _reading(self, thread_id: str) -> Generator[Path]:
        path = self._path(thread_id)
        try:
            yield path
        except OSError as error:
            message = f"{path} can not be read ({error.strerror or error})"
            raise CheckpointLoadError(message, thread_id=thread_id) from error


def _shorten(file: LineFile, keep_last: int) -> None:
    """Keep the last checkpoints only. What was saved is saved: a failure here waits for the next save."""
    try:
        kept, _ = choose(islice(read_checkpoints(file.path), keep_last), PruneRule(keep_last, None))
        file.keep(kept)
    except OSError:
        _log.warning("could not shorten %s", file.path, exc_info=True)


_all: weakref.WeakSet[FileCheckpointer] = weakref.WeakSet()


def _after_fork() -> None:
    for checkpointer in _all:
        checkpointer._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
