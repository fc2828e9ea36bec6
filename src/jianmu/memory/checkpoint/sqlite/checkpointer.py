"""`SqliteCheckpointer` and the rows it keeps in a SQLite file."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Any, Literal

from jianmu.errors import CheckpointSaveError
from jianmu.memory.checkpoint.delta import Position
from jianmu.memory.checkpoint.engine import EngineCheckpointer, StoredChain, StoredRow
from jianmu.memory.checkpoint.leases import LeaseRecord, check_fence
from jianmu.memory.checkpoint.sql_files import read_migrations, read_queries
from jianmu.memory.checkpoint.sqlite.database import SqliteDatabase

if TYPE_CHECKING:
    import os

_PACKAGE = "jianmu.memory.checkpoint.sqlite"
_SAVES = 2**32 - 1  # the lower bits of a row's id


class SqliteCheckpointer(EngineCheckpointer):
    """Keeps every step of every thread in one SQLite file, for many threads and processes at once.

    A save stores what changed since the one before; a whole snapshot is stored now and then, so that reading the
    newest costs the same after 100 saves and after 100,000.

    Args:
        path: the file; it and its folder are made when missing. ``":memory:"`` keeps everything in memory.
        synchronous: ``"NORMAL"``: a save survives the death of the process, and a power cut may take the last ones;
            ``"FULL"``: it survives both, at the price of waiting for the disk each time.
        keyframe_every: a whole snapshot every this many saves; None chooses by size.
        busy_timeout: seconds to wait while another process writes.
        lease_ttl: seconds after which the lock of a holder that no longer renews it may be taken over.

    Raises:
        ConfigurationError: an argument is wrong.
        CheckpointLoadError: the file can not be opened or is no SQLite database.
        CheckpointVersionError: the file was written by a newer Jianmu.

    Example:
        >>> with SqliteCheckpointer(":memory:") as checkpointer:
        ...     checkpointer.save_checkpoint("session-42", 1, {"topic": "tea"})
        ...     checkpointer.get_checkpoint("session-42")["state"]
        {'topic': 'tea'}
    """

    local = True
    """A save takes microseconds and no network: it may be done on the event loop."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
        keyframe_every: int | None = None,
        busy_timeout: float = 10.0,
        lease_ttl: float = 30.0,
    ) -> None:
        database = SqliteDatabase(path, synchronous=synchronous, busy_timeout=busy_timeout)
        try:
            database.migrate("checkpoints", read_migrations(_PACKAGE))
            super().__init__(_SqliteRows(database), keyframe_every=keyframe_every, lease_ttl=lease_ttl)
        except BaseException:
            database.close()
            raise


class _SqliteRows:
    failures = (sqlite3.Error,)

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._queries = read_queries(_PACKAGE)
        self._append = self._queries["append"]

    def append(
        self, thread_id: str, previous: Position, step: int, body: bytes, token: int | None, *, whole: bool
    ) -> Position | None:
        position = Position(previous.thread, previous.number + 1)
        parameters = {
            "thread": position.thread,
            "id": position.number,
            "step": step,
            "whole": whole,
            "body": body,
            "token": token,
            "now": time.time(),
        }
        return position if self._database.run(self._append, parameters).rowcount == 1 else None

    def begin(self, thread_id: str, step: int, body: bytes, token: int | None, *, only_first: bool = False) -> Position:
        name = _name(thread_id)
        with self._database.transaction() as connection:
            self._run(connection, "make_thread", name=name)
            thread, lease = self._thread(connection, name) or (0, None)
            if check_fence(thread_id, token, lease) and lease is not None:
                self._run(connection, "drop_lease", name=name, token=lease.token)
            (newest,) = self._run(connection, "newest_id", thread=thread).fetchone()
            if only_first and newest is not None:
                raise CheckpointSaveError("it has checkpoints already; fork into a new thread", thread_id=thread_id)
            row = thread << 32 if newest is None else newest + 1
            self._run(connection, "begin", id=row, step=step, body=body, now=time.time())
        return Position(thread, row)

    def chain(self, thread_id: str, step: int | None = None) -> StoredChain | None:
        with self._database.connection() as connection:
            rows = self._run(connection, "chain", name=_name(thread_id), step=step).fetchall()
        if not rows:
            return None
        newest = rows[-1][0]
        return StoredChain(Position(newest >> 32, newest), [body for _, body in rows])

    def threads(self) -> list[str]:
        with self._database.connection() as connection:
            return [name.decode("utf-8", "surrogatepass") for (name,) in self._run(connection, "threads")]

    def listing(self, thread_id: str, limit: int | None, before: int | None) -> list[StoredRow]:
        limit = -1 if limit is None else max(0, limit)
        with self._database.connection() as connection:
            rows = self._run(connection, "listing", name=_name(thread_id), before=before, limit=limit)
            return [StoredRow(*row) for row in rows]

    def cut(self, thread_id: str, first: Position, body: bytes) -> None:
        thread, row, _ = first
        with self._database.transaction() as connection:
            if self._run(connection, "make_keyframe", id=row, body=body).rowcount:
                self._run(connection, "drop_before", thread=thread, id=row)
                self._run(connection, "set_first", thread=thread, id=row)

    def delete(self, thread_id: str) -> bool:
        name = _name(thread_id)
        with self._database.transaction() as connection:
            thread, lease = self._thread(connection, name) or (None, None)
            dropped = self._run(connection, "drop_rows", thread=thread).rowcount > 0
            self._run(connection, "drop_thread", thread=thread)
            if lease is not None and not lease.expired:
                self._run(connection, "make_thread", name=name)
                self._run(connection, "keep_lease", name=name, **lease._asdict())
            return dropped

    def take_lease(self, thread_id: str, holder: str, span: float, dead: int | None) -> int | None:
        name = _name(thread_id)
        with self._database.transaction() as connection:
            self._run(connection, "make_thread", name=name)
            _, lease = self._thread(connection, name) or (0, None)
            if lease is not None and not lease.expired and lease.token != dead:
                return None
            self._run(connection, "next_token")
            self._run(connection, "set_lease", name=name, holder=holder, expires_at=time.time() + span)
            _, lease = self._thread(connection, name) or (0, None)
            return None if lease is None else lease.token

    def read_lease(self, thread_id: str) -> LeaseRecord | None:
        with self._database.connection() as connection:
            _, lease = self._thread(connection, _name(thread_id)) or (0, None)
            return lease

    def renew_lease(self, thread_id: str, token: int, span: float) -> bool:
        with self._database.connection() as connection:
            expires_at = time.time() + span
            renewed = self._run(connection, "renew_lease", name=_name(thread_id), token=token, expires_at=expires_at)
            return renewed.rowcount == 1

    def release_lease(self, thread_id: str, token: int) -> None:
        name = _name(thread_id)
        with self._database.transaction() as connection:
            self._run(connection, "drop_lease", name=name, token=token)
            self._run(connection, "drop_empty_thread", name=name)

    def close(self) -> None:
        self._database.close()

    def _run(self, connection: sqlite3.Connection, query: str, **parameters: Any) -> sqlite3.Cursor:
        return connection.execute(self._queries[query], parameters)

    def _thread(self, connection: sqlite3.Connection, name: bytes) -> tuple[int, LeaseRecord | None] | None:
        row = self._run(connection, "thread", name=name).fetchone()
        if row is None:
            return None
        number, token, holder, expires_at = row
        return number, None if token is None else LeaseRecord(token, holder, expires_at, expires_at <= time.time())


def _name(thread_id: str) -> bytes:
    return thread_id.encode("utf-8", "surrogatepass")
