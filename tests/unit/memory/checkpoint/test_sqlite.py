"""What is particular to the SQLite file."""

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jianmu.errors import CheckpointLoadError, CheckpointSaveError, CheckpointVersionError, ConfigurationError
from jianmu.memory.checkpoint.sqlite import SqliteCheckpointer


def test_the_folder_is_made_and_the_file_is_in_write_ahead_mode(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "checkpoints.db"
    SqliteCheckpointer(path).close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("SELECT * FROM jianmu_schema").fetchall() == [("checkpoints", 1)]
    connection.close()


def test_memory_needs_no_file() -> None:
    with SqliteCheckpointer(":memory:") as checkpointer:
        checkpointer.save_checkpoint("chat", 1, {"a": 1})
        assert checkpointer.list_threads() == ["chat"]


@pytest.mark.parametrize("synchronous", ["NORMAL", "FULL"])
def test_both_ways_to_write_keep_what_was_saved(tmp_path: Path, synchronous: str) -> None:
    with SqliteCheckpointer(tmp_path / "c.db", synchronous=synchronous) as checkpointer:  # pyright: ignore[reportArgumentType]
        checkpointer.save_checkpoint("chat", 1, {"a": 1})
    with SqliteCheckpointer(tmp_path / "c.db") as checkpointer:
        assert checkpointer.get_checkpoint("chat") is not None


@pytest.mark.parametrize("wrong", [{"synchronous": "OFF; DROP"}, {"busy_timeout": -1}])
def test_wrong_settings_are_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        SqliteCheckpointer(tmp_path / "c.db", **wrong)  # pyright: ignore[reportArgumentType]


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but something that somebody needs\n" * 100)
    with pytest.raises(CheckpointLoadError, match=r"notes\.txt"):
        SqliteCheckpointer(path)
    assert path.read_text().startswith("not a database")


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    SqliteCheckpointer(path).close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE jianmu_schema SET version = 99")
    connection.commit()
    connection.close()
    with pytest.raises(CheckpointVersionError, match="99"):
        SqliteCheckpointer(path)


def test_a_failed_migration_leaves_nothing_behind(tmp_path: Path) -> None:
    """Each migration is one transaction: a table that is in its way breaks it, and it can be tried again."""
    path = tmp_path / "c.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE jianmu_checkpoints (mine)")
    connection.commit()
    with pytest.raises(CheckpointLoadError, match="already exists"):
        SqliteCheckpointer(path)
    assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'jianmu_threads'").fetchall() == []
    connection.execute("DROP TABLE jianmu_checkpoints")
    connection.commit()
    connection.close()
    with SqliteCheckpointer(path) as checkpointer:
        checkpointer.save_checkpoint("chat", 1, {})


def test_a_writer_that_takes_too_long_is_an_error_and_costs_nothing(tmp_path: Path) -> None:
    """R18: another process holds the file; the save gives up after busy_timeout and the thread is as it was."""
    with SqliteCheckpointer(tmp_path / "c.db", busy_timeout=0.05) as checkpointer:
        checkpointer.save_checkpoint("chat", 1, {"a": 1})
        other = sqlite3.connect(tmp_path / "c.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CheckpointSaveError, match=r"'chat', step 2.*locked"):
            checkpointer.save_checkpoint("chat", 2, {"a": 2})
        assert checkpointer.get_checkpoint("chat") is not None
        other.execute("ROLLBACK")
        other.close()
        checkpointer.save_checkpoint("chat", 2, {"a": 2})
        assert [info.step for info in checkpointer.list_checkpoints("chat")] == [2, 1]


def test_a_short_writer_is_waited_for(tmp_path: Path) -> None:
    with SqliteCheckpointer(tmp_path / "c.db", busy_timeout=10) as checkpointer:
        other = sqlite3.connect(tmp_path / "c.db", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.1, lambda: other.execute("COMMIT")).start()
        checkpointer.save_checkpoint("chat", 1, {})
        other.close()
        assert checkpointer.list_threads() == ["chat"]


def test_a_full_disk_is_an_error_and_costs_nothing(tmp_path: Path) -> None:
    """R18: what was saved before stays readable."""
    with SqliteCheckpointer(tmp_path / "c.db") as checkpointer:
        checkpointer.save_checkpoint("chat", 1, {"a": 1})
        with checkpointer._rows._database.connection() as connection:  # pyright: ignore[reportAttributeAccessIssue]
            connection.execute("PRAGMA max_page_count = 1")  # SQLite then reports a full disk
        with pytest.raises(CheckpointSaveError, match="full"):
            checkpointer.save_checkpoint("chat", 2, {"a": "x" * 1_000_000})
        assert checkpointer.get_checkpoint("chat")["state"] == {"a": 1}  # pyright: ignore[reportOptionalSubscript]


def test_damaged_rows_are_an_error_that_names_the_thread(tmp_path: Path) -> None:
    with SqliteCheckpointer(tmp_path / "c.db") as checkpointer:
        checkpointer.save_checkpoint("chat", 1, {"a": 1})
        connection = sqlite3.connect(tmp_path / "c.db", isolation_level=None)
        connection.execute("UPDATE jianmu_checkpoints SET body = x'7b'")
        connection.close()
        with pytest.raises(CheckpointLoadError, match=r"'chat'.*damaged"):
            checkpointer.get_checkpoint("chat")


def test_a_forked_child_opens_its_own_connection(tmp_path: Path) -> None:
    """Parent and child go on saving through the checkpointer that was open before the fork."""
    code = """
import os, sys
from jianmu.memory.checkpoint.sqlite import SqliteCheckpointer
checkpointer = SqliteCheckpointer(sys.argv[1])
checkpointer.save_checkpoint("chat", 1, {"a": 1})
child = os.fork()
for step in range(20):
    checkpointer.save_checkpoint("child" if child == 0 else "parent", step, {"a": step})
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    path = str(tmp_path / "c.db")
    subprocess.run([sys.executable, "-c", code, path], check=True, env=os.environ)
    with SqliteCheckpointer(path) as checkpointer:
        assert checkpointer.list_threads() == ["chat", "child", "parent"]
        assert [len(checkpointer.list_checkpoints(name)) for name in ("child", "parent")] == [20, 20]
