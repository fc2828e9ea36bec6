"""One PostgreSQL database: pooled connections, a schema and numbered migrations."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, LiteralString, cast

from jianmu._extras import extra
from jianmu.errors import CheckpointLoadError, ConfigurationError
from jianmu.memory.checkpoint.sql_files import Migration, pending_migrations

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from psycopg import Connection
    from psycopg_pool import ConnectionPool

_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_MIGRATING = 0x6A69616E6D75  # "jianmu": the key of the advisory lock that one migrating process holds


class PostgresDatabase:
    """Connections to one database, and the schema that the tables stand in.

    Args:
        where: a connection string (``postgresql://...``), for which a pool is made, or a ``psycopg_pool`` pool, which
            stays the caller's to close.
        schema: the schema's name; made when missing.
        max_connections: the size of a pool that is made here.
        timeout: seconds to wait for a connection of a pool that is made here.

    Raises:
        MissingExtraError: psycopg is not installed.
        ConfigurationError: the schema's name is no plain word.
    """

    def __init__(
        self, where: str | ConnectionPool[Any], *, schema: str, max_connections: int = 8, timeout: float = 10.0
    ) -> None:
        with extra("postgres"):
            import psycopg
            import psycopg_pool
        if not _SCHEMA.fullmatch(schema):
            raise ConfigurationError(f"schema is {schema!r}; use letters, digits and _, at most 63 of them")
        self.failure: type[Exception] = psycopg.Error
        self.schema = schema
        self._owned = isinstance(where, str)
        self._pool: ConnectionPool[Any] = (
            psycopg_pool.ConnectionPool(
                where, min_size=1, max_size=max_connections, timeout=timeout, kwargs={"autocommit": True}, open=True
            )
            if isinstance(where, str)
            else where
        )

    def text(self, sql: str) -> LiteralString:
        """Put the schema's quoted name into SQL that stands in a file."""
        return cast("LiteralString", sql.replace("{schema}", f'"{self.schema}"'))

    def run(self, query: LiteralString, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Run one statement as its own transaction and return its rows.

        A connection that turns out to be dead is replaced and the statement is run once more, so a statement must
        bear being run twice.
        """
        rows = self._run(query, parameters)
        if rows is None:
            self._pool.check()  # others may have died with it
            rows = self._run(query, parameters)
        if rows is None:
            raise self.failure("the connection was lost, twice")
        return rows

    @contextmanager
    def transaction(self) -> Generator[Connection[tuple[Any, ...]]]:
        """Use a connection in a transaction: all of it happens, or nothing."""
        with self._connection() as connection, connection.transaction():
            yield connection

    def migrate(self, component: str, migrations: Sequence[Migration]) -> None:
        """Bring the schema's tables to the newest version, each step in its own transaction.

        Args:
            component: whose tables; each component has its own version.
            migrations: all steps, in order.

        Raises:
            CheckpointVersionError: the database is newer than this code.
            CheckpointLoadError: the database can not be reached, or refuses.
        """
        try:
            while self._migrate_one(component, migrations):
                pass
        except self.failure as error:
            raise CheckpointLoadError(f"PostgreSQL can not be used: {error}") from error

    def close(self) -> None:
        """Close the pool, if it was made here."""
        if self._owned:
            self._pool.close()

    def _migrate_one(self, component: str, migrations: Sequence[Migration]) -> bool:
        with self.transaction() as connection:
            # One process migrates at a time, also the very first.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATING,))
            if not connection.execute("SELECT to_regclass(%s)", (self.text("{schema}.jianmu_schema"),)).fetchone()[0]:  # pyright: ignore[reportOptionalSubscript]
                connection.execute(self.text("CREATE SCHEMA IF NOT EXISTS {schema}"))
                connection.execute(
                    self.text("CREATE TABLE {schema}.jianmu_schema (component text PRIMARY KEY, version int NOT NULL)")
                )
            version = self.text("SELECT version FROM {schema}.jianmu_schema WHERE component = %s")
            row = connection.execute(version, (component,)).fetchone()
            pending = pending_migrations(migrations, row[0] if row else 0, f"schema {self.schema} ({component})")
            if not pending:
                return False
            connection.execute(self.text(pending[0].sql))
            connection.execute(
                self.text(
                    "INSERT INTO {schema}.jianmu_schema VALUES (%s, %s)"
                    " ON CONFLICT (component) DO UPDATE SET version = excluded.version"
                ),
                (component, pending[0].number),
            )
            return True

    def _run(self, query: LiteralString, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]] | None:
        """Return a statement's rows; None when the connection turned out to be dead."""
        with self._connection() as connection:
            try:
                cursor = connection.execute(query, parameters, binary=True)
                return cursor.fetchall() if cursor.description else []
            except self.failure:
                if not connection.broken:
                    raise
        return None

    @contextmanager
    def _connection(self) -> Generator[Connection[tuple[Any, ...]]]:
        connection = self._pool.getconn()
        autocommit = connection.autocommit
        try:
            if not autocommit:  # a pool of the caller's
                connection.autocommit = True
            yield connection
        finally:
            if not autocommit and not connection.broken:
                connection.autocommit = False
            self._pool.putconn(connection)
