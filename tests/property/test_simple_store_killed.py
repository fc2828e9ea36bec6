"""SimpleStore under SIGKILL: what was acknowledged is there, and the file is whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from jianmu.memory import SimpleStore

if TYPE_CHECKING:
    from pathlib import Path

_WRITER = """
import itertools, sys
from jianmu.memory import SimpleStore
store = SimpleStore(sys.argv[1])
for number in itertools.count(int(sys.argv[2])):
    store.record(f"tea {number} " + "x" * 2000, key=str(number))
    print(number, flush=True)
"""


def write_until_killed(path: Path, start: int, acknowledged: int) -> int:
    """Let a child write, kill it when it has acknowledged so many records, and return the last acknowledged one."""
    command = [sys.executable, "-c", _WRITER, str(path), str(start)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for _ in range(acknowledged):
            last = int(child.stdout.readline())
        os.kill(child.pid, signal.SIGKILL)
        last = max([last, *(int(line) for line in child.stdout)])
        assert child.wait() == -signal.SIGKILL
    return last


def kill_often(path: Path, times: int) -> None:
    following = 0
    for attempt in range(times):
        last = write_until_killed(path, following, acknowledged=1 + attempt % 7)
        found = {int(item["id"]) for item in SimpleStore(path).retrieve("tea", limit=10**6)}
        assert found in (set(range(last + 1)), set(range(last + 2))), attempt
        following = last + 2
        SimpleStore(path).record("tea in between", key=str(last + 1))
    assert {file.name for file in path.parent.iterdir()} == {path.name, f"{path.name}.lock"}


def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path) -> None:
    """R33: after each SIGKILL every acknowledged record is there, and the next process can write."""
    kill_often(tmp_path / "store.json", times=5)


@pytest.mark.proof
def test_a_writer_killed_two_hundred_times_leaves_a_whole_file(tmp_path: Path) -> None:
    """R33: the same, two hundred times."""
    kill_often(tmp_path / "store.json", times=200)
