"""Several processes that write one thread's file at the same time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.faults.file_crowd import is_whole, signed

from jianmu.errors import ThreadLockedError
from jianmu.memory import FileCheckpointer

ROOT = Path(__file__).parents[2]
HOLDER = """
import sys
from jianmu.memory import FileCheckpointer
checkpointer = FileCheckpointer(sys.argv[1])
with checkpointer.lock("t") as lease:
    checkpointer.save_checkpoint("t", 1, {})
    print(lease.token, flush=True)
    sys.stdin.read()
"""


def run_writers(folder: Path, count: int, saves: int, keep_last: int | None = None, pruning: int = 0) -> list[int]:
    """Let processes write threads ``a`` and ``b``; return how many torn checkpoints each of them read."""
    orders = [[str(folder), writer, saves, keep_last, pruning] for writer in range(count)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.faults.file_crowd", json.dumps(order)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for order in orders
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [int(process.communicate(timeout=120)[0]) for process in processes]


def stored(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize(("count", "saves"), [(2, 150), pytest.param(8, 1000, marks=pytest.mark.proof)])
def test_processes_lose_nothing(tmp_path: Path, count: int, saves: int) -> None:
    """R15: every line is whole, every save is there once, and each writer's own are in its order."""
    assert run_writers(tmp_path, count, saves) == [0] * count
    checkpointer = FileCheckpointer(tmp_path)
    for thread in ("a", "b"):
        lines = stored(tmp_path / f"{thread}.jsonl")
        assert len(lines) == count * saves
        assert all(is_whole({key: line[key] for key in signed(0, 0)}) for line in lines)
        for writer in range(count):
            mine = [line["step"] for line in lines if line["state"]["by"][0] == writer]
            assert mine == [number * 10 + writer for number in range(saves)]
        newest = checkpointer.get_checkpoint(thread)
        assert newest == signed(*lines[-1]["state"]["by"])


@pytest.mark.parametrize(("count", "saves"), [(2, 100), pytest.param(8, 1000, marks=pytest.mark.proof)])
def test_processes_that_shorten_the_file_lose_nothing_new(tmp_path: Path, count: int, saves: int) -> None:
    """R15 R16: files are replaced under the other writers; whoever saves, saves into the one that is there."""
    assert run_writers(tmp_path, count, saves, keep_last=3, pruning=2) == [0] * count
    for thread in ("a", "b"):
        lines = stored(tmp_path / f"{thread}.jsonl")
        assert 1 <= len(lines) <= 6
        assert all(is_whole({key: line[key] for key in signed(0, 0)}) for line in lines)
        assert lines[-1]["step"] // 10 == saves - 1, "the last save of one of the writers is the newest"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl"]


def test_the_lock_of_another_process(tmp_path: Path) -> None:
    """R15: its holder is named and alone may save; killed, it leaves the lock free at once, with a higher number."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        token = int(holder.stdout.readline())
        checkpointer = FileCheckpointer(tmp_path)
        with pytest.raises(ThreadLockedError, match=rf"process {holder.pid}\b.*try again"):
            checkpointer.lock("t").__enter__()
        with pytest.raises(ThreadLockedError):
            checkpointer.save_checkpoint("t", 2, {})
        checkpointer.save_checkpoint("other", 2, {})
        holder.kill()
    with checkpointer.lock("t") as lease:
        assert lease.token > token
        checkpointer.save_checkpoint("t", 2, {})
    assert [info.step for info in checkpointer.list_checkpoints("t")] == [2, 1]
