"""`PostgresCheckpointer` and the rows it keeps in PostgreSQL."""

from __future__ import annotations

from random import getrandbits
from typing import TYPE_CHECKING, Any, LiteralString

from jianmu.errors import CheckpointSaveError
from jianmu.memory.checkpoint.delta import Position
from jianmu.memory.checkpoint.engine import EngineCheckpointer, StoredChain, StoredRow
from jianmu.memory.checkpoint.leases import LeaseRecord, locked, stale_writer
from jianmu.memory.checkpoint.postgres.database import PostgresDatabase
from jianmu.memory.checkpoint.sql_files import read_migrations, read_queries

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

_PACKAGE = "jianmu.memory.checkpoint.postgres"


class PostgresCheckpointer(EngineCheckpointer):
    """Keeps every step of every thread in PostgreSQL, for many processes on many machines.

    A save is one statement; it stores what changed since the one before. A whole snapshot is stored now and then, so
    that reading the newest costs the same after 100 saves and after 100,000.

    Args:
        where: a connection string such as ``postgresql://user@host/database``, for which a pool is made, or a
            ``psycopg_pool.ConnectionPool``, which stays yours to close.
        schema: the schema that the tables stand in; made when missing.
        keyframe_every: a whole snapshot every this many saves; None chooses by size.
        lease_ttl: seconds after which the lock of a holder that no longer renews it may be taken over.
        max_connections: the size of a pool that is made here.
        timeout: seconds to wait for a connection of a pool that is made here.

    Raises:
        MissingExtraError: psycopg is not installed.
        ConfigurationError: an argument is wrong.
        CheckpointLoadError: the database can not be reached, or refuses.
        CheckpointVersionError: the tables were made by a newer Jianmu.

    Example:
        >>> checkpointer = PostgresCheckpointer("postgresql://localhost/agents")  # doctest: +SKIP
        >>> checkpointer.save_checkpoint("session-42", 1, {"topic": "tea"})  # doctest: +SKIP
    """

    def __init__(
        self,
        where: str | ConnectionPool[Any],
        *,
        schema: str = "jianmu",
        keyframe_every: int | None = None,
        lease_ttl: float = 30.0,
        max_connections: int = 8,
        timeout: float = 10.0,
    ) -> None:
        database = PostgresDatabase(where, schema=schema, max_connections=max_connections, timeout=timeout)
        try:
            database.migrate("checkpoints", read_migrations(_PACKAGE))
            super().__init__(_PostgresRows(database), keyframe_every=keyframe_every, lease_ttl=lease_ttl)
        except BaseException:
            database.close()
            raise


class _PostgresRows:
    def __init__(self, database: PostgresDatabase) -> None:
        self.failures = (database.failure,)
        self._database = database
        self._queries: dict[str, LiteralString] = {
            name: database.text(query) for name, query in read_queries(_PACKAGE).items()
        }

    def append(
        self, thread_id: str, previous: Position, step: int, body: bytes, token: int | None, *, whole: bool
    ) -> Position | None:
        position = Position(previous.thread, previous.number + 1, getrandbits(63))
        added = self._run(
            "append",
            thread=position.thread,
            previous=previous.number,
            previous_mark=previous.mark,
            mark=position.mark,
            step=step,
            whole=whole,
            body=body,
            token=token,
        )
        return position if added else None

    def begin(self, thread_id: str, step: int, body: bytes, token: int | None, *, only_first: bool = False) -> Position:
        mark = getrandbits(63)
        ((outcome, thread, number),) = self._run(
            "begin", name=_name(thread_id), mark=mark, step=step, body=body, token=token, only_first=only_first
        )
        if outcome == "stale":
            raise stale_writer(thread_id, token)
        if outcome == "locked":
            raise locked(thread_id)
        if outcome == "exists":
            raise CheckpointSaveError("it has checkpoints already; fork into a new thread", thread_id=thread_id)
        return Position(thread, number, mark)

    def chain(self, thread_id: str, step: int | None = None) -> StoredChain | None:
        rows = self._run("chain", name=_name(thread_id), step=step)
        if not rows:
            return None
        thread, number, mark, _ = rows[-1]
        return StoredChain(Position(thread, number, mark), [body for *_, body in rows])

    def threads(self) -> list[str]:
        return [name.decode("utf-8", "surrogatepass") for (name,) in self._run("threads")]

    def listing(self, thread_id: str, limit: int | None, before: int | None) -> list[StoredRow]:
        limit = None if limit is None else max(0, limit)
        return [StoredRow(*row) for row in self._run("listing", name=_name(thread_id), limit=limit, before=before)]

    def cut(self, thread_id: str, first: Position, body: bytes) -> None:
        self._run("cut", thread=first.thread, number=first.number, body=body)

    def delete(self, thread_id: str) -> bool:
        with self._database.transaction() as connection:
            thread = connection.execute(self._queries["lock_thread"], {"name": _name(thread_id)}).fetchone()
            if thread is None:
                return False
            known = {"thread": thread[0]}
            dropped = connection.execute(self._queries["drop_rows"], known).fetchone()
            lease = connection.execute(self._queries["drop_thread"], known).fetchone()
            if lease is not None:
                connection.execute(self._queries["keep_lease"], lease)
        return dropped is not None and dropped[0] > 0

    def take_lease(self, thread_id: str, holder: str, span: float, dead: int | None) -> int | None:
        taken = self._run("take_lease", name=_name(thread_id), holder=holder, span=span, dead=dead)
        return taken[0][0] if taken else None

    def read_lease(self, thread_id: str) -> LeaseRecord | None:
        found = self._run("read_lease", name=_name(thread_id))
        return LeaseRecord(*found[0]) if found else None

    def renew_lease(self, thread_id: str, token: int, span: float) -> bool:
        return bool(self._run("renew_lease", name=_name(thread_id), token=token, span=span))

    def release_lease(self, thread_id: str, token: int) -> None:
        self._run("drop_lease", name=_name(thread_id), token=token)
        self._run("drop_empty_thread", name=_name(thread_id))

    def close(self) -> None:
        self._database.close()

    def _run(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return self._database.run(self._queries[query], parameters)


def _name(thread_id: str) -> bytes:
    return thread_id.encode("utf-8", "surrogatepass")
