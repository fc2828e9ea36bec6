"""One SQLite file: a guarded connection, transactions and numbered migrations."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jianmu.errors import CheckpointLoadError, ConfigurationError
from jianmu.memory.checkpoint.sql_files import Migration, pending_migrations

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

_VERSIONS = "CREATE TABLE IF NOT EXISTS jianmu_schema (component TEXT PRIMARY KEY, version INTEGER NOT NULL)"
# Small pages: each save writes at least one whole page into the write-ahead log, and most changes are small.
_PAGE_BYTES = 1024


class SqliteDatabase:
    """A connection to one file, shared by the threads of this process; each process opens its own.

    Args:
        path: the file; its folder is made when missing. ``":memory:"`` keeps everything in memory.
        synchronous: ``"NORMAL"``: a save survives the death of the process, and a power cut may take the last ones;
            ``"FULL"``: it survives both, at the price of waiting for the disk each time.
        busy_timeout: seconds to wait while another process writes.

    Raises:
        ConfigurationError: an argument is wrong.
        CheckpointLoadError: the file can not be opened or is no SQLite database.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
        busy_timeout: float = 10.0,
    ) -> None:
        if synchronous not in ("NORMAL", "FULL"):
            raise ConfigurationError(f"synchronous is {synchronous!r}; give 'NORMAL' or 'FULL'")
        if busy_timeout < 0:
            raise ConfigurationError(f"busy_timeout is {busy_timeout!r} seconds; give 0 or more")
        self.path = os.fspath(path)
        self._synchronous = synchronous
        self._busy_timeout = busy_timeout
        self._abandoned: list[sqlite3.Connection] = []
        self._open()

    def run(self, statement: str, parameters: Mapping[str, Any]) -> sqlite3.Cursor:
        """Run one statement that returns no rows, as its own transaction."""
        if self._pid != os.getpid():
            self._leave_to_parent()
        with self._lock:
            return self._connection.execute(statement, parameters)

    @contextmanager
    def connection(self) -> Generator[sqlite3.Connection]:
        """Use the connection alone; each statement is its own transaction."""
        if self._pid != os.getpid():
            self._leave_to_parent()
        with self._lock:
            yield self._connection

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """Use the connection in a write transaction: all of it happens, or nothing."""
        with self.connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.execute("COMMIT")

    def migrate(self, component: str, migrations: Sequence[Migration]) -> None:
        """Bring the file's tables to the newest version, each step in its own transaction.

        Args:
            component: whose tables; each component has its own version.
            migrations: all steps, in order.

        Raises:
            CheckpointVersionError: the file is newer than this code.
            CheckpointLoadError: the file can not be written, or a step fails; what was there before is intact.
        """
        try:
            with self.transaction() as connection:
                connection.execute(_VERSIONS)
            while self._migrate_one(component, migrations):
                pass
        except sqlite3.Error as error:
            raise CheckpointLoadError(f"the tables in {self.path} can not be made or changed: {error}") from error

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def _migrate_one(self, component: str, migrations: Sequence[Migration]) -> bool:
        with self.transaction() as connection:
            # Read inside the transaction: another process may be doing the same.
            row = connection.execute("SELECT version FROM jianmu_schema WHERE component = ?", (component,)).fetchone()
            pending = pending_migrations(migrations, row[0] if row else 0, f"{self.path} ({component})")
            if not pending:
                return False
            for statement in _statements(pending[0].sql):
                connection.execute(statement)
            connection.execute("INSERT OR REPLACE INTO jianmu_schema VALUES (?, ?)", (component, pending[0].number))
            return True

    def _leave_to_parent(self) -> None:
        """Open a connection of one's own: a forked child must neither use nor close its parent's."""
        self._abandoned.append(self._connection)
        self._open()

    def _open(self) -> None:
        try:
            self._connection = self._connected()
        except (sqlite3.Error, OSError) as error:
            raise CheckpointLoadError(f"{self.path} can not be opened as a SQLite database: {error}") from error
        self._lock = threading.RLock()
        self._pid = os.getpid()

    def _connected(self) -> sqlite3.Connection:
        if self.path != ":memory:":
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self.path, timeout=self._busy_timeout, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            self._write_ahead(connection)
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _write_ahead(self, connection: sqlite3.Connection) -> None:
        """Switch to the write-ahead log; SQLite does not wait by itself for others that do the same."""
        deadline = time.monotonic() + self._busy_timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= deadline:
                    raise
                time.sleep(0.005)


def _statements(script: str) -> Generator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement
