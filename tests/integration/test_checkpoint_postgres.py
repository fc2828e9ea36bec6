"""What is particular to PostgreSQL, on a real server."""

import sys
from typing import Any

import psycopg
import psycopg_pool
import pytest

from jianmu.errors import (
    CheckpointLoadError,
    CheckpointSaveError,
    CheckpointVersionError,
    ConfigurationError,
    MissingExtraError,
)
from jianmu.memory import PostgresCheckpointer


def sql(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def test_everything_stands_in_its_schema(postgres_url: str, postgres_schema: str) -> None:
    with PostgresCheckpointer(postgres_url, schema=postgres_schema) as one:
        with PostgresCheckpointer(postgres_url, schema=f"{postgres_schema}_B") as other:
            one.save_checkpoint("chat", 1, {"a": 1})
            assert other.list_threads() == []
        tables = f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{postgres_schema}'"
        assert sorted(name for (name,) in sql(postgres_url, tables)) == [
            "jianmu_checkpoints",
            "jianmu_schema",
            "jianmu_threads",
        ]


@pytest.mark.parametrize("name", ["", "a b", 'a"; DROP SCHEMA public; --', "a.b", "木", "x" * 64, "1a"])
def test_a_schema_name_is_a_plain_word(postgres_url: str, name: str) -> None:
    with pytest.raises(ConfigurationError, match="schema"):
        PostgresCheckpointer(postgres_url, schema=name)


def test_a_pool_stays_its_owners(postgres_url: str, postgres_schema: str) -> None:
    """Its connections come back as they were, transactions included, and it is not closed."""
    with psycopg_pool.ConnectionPool(postgres_url, min_size=1, max_size=2) as pool:
        with PostgresCheckpointer(pool, schema=postgres_schema) as checkpointer:
            checkpointer.save_checkpoint("chat", 1, {"a": 1})
            with checkpointer.lock("chat"):
                checkpointer.save_checkpoint("chat", 2, {"a": 2})
            checkpointer.delete_thread("other")
        with pool.connection() as connection:
            assert not connection.autocommit
            row = connection.execute(f"SELECT count(*) FROM {postgres_schema}.jianmu_checkpoints".encode()).fetchone()
            assert row == (2,)


def test_a_newer_schema_is_refused(postgres_url: str, postgres_schema: str) -> None:
    PostgresCheckpointer(postgres_url, schema=postgres_schema).close()
    sql(postgres_url, f"UPDATE {postgres_schema}.jianmu_schema SET version = 99")
    with pytest.raises(CheckpointVersionError, match="99"):
        PostgresCheckpointer(postgres_url, schema=postgres_schema)


def test_a_failed_migration_leaves_nothing_behind(postgres_url: str, postgres_schema: str) -> None:
    sql(postgres_url, f"CREATE SCHEMA {postgres_schema}")
    sql(postgres_url, f"CREATE TABLE {postgres_schema}.jianmu_checkpoints (mine int)")
    with pytest.raises(CheckpointLoadError, match="already exists"):
        PostgresCheckpointer(postgres_url, schema=postgres_schema)
    assert sql(postgres_url, f"SELECT to_regclass('{postgres_schema}.jianmu_threads')") == [(None,)]
    sql(postgres_url, f"DROP TABLE {postgres_schema}.jianmu_checkpoints")
    with PostgresCheckpointer(postgres_url, schema=postgres_schema) as checkpointer:
        checkpointer.save_checkpoint("chat", 1, {})


def test_a_connection_that_died_is_replaced(postgres_url: str, postgres_schema: str) -> None:
    """A restart of the server or of a proxy between two ticks costs no tick."""
    with PostgresCheckpointer(postgres_url, schema=postgres_schema) as checkpointer:
        for step in range(1, 6):
            checkpointer.save_checkpoint("chat", step, {"a": step})
            sql(
                postgres_url,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                f" WHERE pid <> pg_backend_pid() AND query LIKE '%{postgres_schema}%'",
            )
        assert [info.step for info in checkpointer.list_checkpoints("chat")] == [5, 4, 3, 2, 1]


def test_a_server_that_fell_back_to_older_data_is_noticed(postgres_url: str, postgres_schema: str) -> None:
    """After a failover that lost saves, nothing is built on a row that is not the one it is taken for."""
    url, table = postgres_url, f"{postgres_schema}.jianmu_checkpoints"
    with (
        PostgresCheckpointer(url, schema=postgres_schema, keyframe_every=100) as survivor,
        PostgresCheckpointer(url, schema=postgres_schema, keyframe_every=100) as other,
    ):
        for step in range(1, 6):
            survivor.save_checkpoint("chat", step, {"a": [*range(step)]})
        sql(url, f"DELETE FROM {table} WHERE number > 3")
        survivor.save_checkpoint("chat", 6, {"a": [*range(6)]})
        assert survivor.get_checkpoint("chat")["state"] == {"a": [*range(6)]}  # pyright: ignore[reportOptionalSubscript]
        survivor.save_checkpoint("chat", 7, {"a": [*range(7)]})
        sql(url, f"DELETE FROM {table} WHERE number > 3")
        for step in (4, 5):
            other.save_checkpoint("chat", step, {"b": step})
        survivor.save_checkpoint("chat", 8, {"a": [*range(8)]})
        states = {info.step: other.get_checkpoint_at("chat", info.step) for info in other.list_checkpoints("chat")}
        assert [states[step]["state"] for step in (4, 5, 8)] == [{"b": 4}, {"b": 5}, {"a": [*range(8)]}]


def test_a_server_that_is_not_there_is_an_error_without_the_password() -> None:
    with pytest.raises(CheckpointLoadError) as caught:
        PostgresCheckpointer("postgresql://me:hush@127.0.0.1:1/none?connect_timeout=1", timeout=0.2)
    assert "hush" not in str(caught.value)


def test_what_the_server_refuses_names_the_thread(postgres_url: str, postgres_schema: str) -> None:
    """R18: the error carries the server's words."""
    with PostgresCheckpointer(postgres_url, schema=postgres_schema) as checkpointer:
        checkpointer.save_checkpoint("chat", 1, {})
        sql(postgres_url, f"DROP TABLE {postgres_schema}.jianmu_checkpoints")
        with pytest.raises(CheckpointSaveError, match=r"'chat', step 2.*jianmu_checkpoints"):
            checkpointer.save_checkpoint("chat", 2, {})
        with pytest.raises(CheckpointLoadError, match=r"'chat'.*jianmu_checkpoints"):
            checkpointer.get_checkpoint("chat")
        with pytest.raises(CheckpointLoadError):
            checkpointer.list_threads()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """R4: the error says which extra to install."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"jianmu\[postgres\]"):
        PostgresCheckpointer("postgresql://localhost/none")
