"""From settings to the checkpointer they describe."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from jianmu.config import RuntimeCheckpointConfig
from jianmu.memory import FileCheckpointer, InMemoryCheckpointer, NullCheckpointer, SqliteCheckpointer
from jianmu.memory.checkpoint.factory import make_checkpointer

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_checkpointer_of_its_settings(tmp_path: Path) -> None:
    """R20: folder and number of lines are as configured."""
    config = RuntimeCheckpointConfig(directory=str(tmp_path / "here"), fsync=False, keep_last=1)
    checkpointer = make_checkpointer(config)
    assert isinstance(checkpointer, FileCheckpointer)
    for step in range(3):
        checkpointer.save_checkpoint("t", step, {})
    assert (tmp_path / "here" / "t.jsonl").read_bytes().count(b"\n") == 1


def test_those_that_need_no_place(tmp_path: Path) -> None:
    """R20."""
    assert isinstance(make_checkpointer(RuntimeCheckpointConfig(backend="memory")), InMemoryCheckpointer)
    assert isinstance(make_checkpointer(RuntimeCheckpointConfig(backend="null")), NullCheckpointer)


@pytest.mark.parametrize("by", ["url", "directory"])
def test_sqlite_by_path_or_in_the_folder(tmp_path: Path, by: str) -> None:
    """R20."""
    place = {"url": str(tmp_path / "checkpoints.db")} if by == "url" else {"directory": str(tmp_path)}
    checkpointer = make_checkpointer(RuntimeCheckpointConfig(backend="sqlite", **place))
    assert isinstance(checkpointer, SqliteCheckpointer)
    checkpointer.save_checkpoint("t", 1, {"a": 1})
    checkpointer.close()
    with SqliteCheckpointer(tmp_path / "checkpoints.db") as again:
        assert again.get_checkpoint("t")["state"] == {"a": 1}


def test_what_is_not_asked_for_is_not_loaded() -> None:
    """R4: files need no database driver."""
    code = (
        "import sys; from jianmu.config import RuntimeCheckpointConfig as C;"
        "from jianmu.memory.checkpoint.factory import make_checkpointer; make_checkpointer(C());"
        "print([m for m in sys.modules if m in ('psycopg', 'redis', 'pydantic') or m.endswith('.sqlite')])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
