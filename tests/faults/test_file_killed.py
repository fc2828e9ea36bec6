"""Writers of checkpoint files that are killed at any moment."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import cycle, islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.faults.file_writer import content

from jianmu.memory import FileCheckpointer

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


class Kind(NamedTuple):
    """How a thread is written."""

    weight: int
    keep_last: int
    locked: bool


THREADS = {
    f"thread-{number}": Kind(weight, keep_last, locked)
    for number, (weight, (keep_last, locked)) in enumerate(
        product((1, 50, 2000), ((0, False), (3, False), (0, True)))
    )
}  # fmt: skip


class Writers:
    """Orders writers and kills them."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process = process
        self.folder = folder

    def run_and_kill(self, thread_id: str, acknowledged: int, delay: float) -> int:
        """Let one write, kill it after so many saves and a moment, and return the last step it said was saved."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(self.folder, thread_id, *THREADS[thread_id], sep="\t", file=self.process.stdin, flush=True)
        pid = int(self.process.stdout.readline())
        said = [self.process.stdout.readline() for _ in range(acknowledged)]
        until = time.perf_counter() + delay
        while time.perf_counter() < until:
            pass  # a sleep is too coarse to hit the middle of a write
        os.kill(pid, signal.SIGKILL)
        said += iter(self.process.stdout.readline, "over\n")
        return int(said[-1])


@contextmanager
def writers(folder: Path) -> Iterator[Writers]:
    command = [sys.executable, "-m", "tests.faults.file_writer"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Writers(process, folder)
        assert process.stdin is not None
        process.stdin.close()
    assert process.returncode == 0


def is_torn(path: Path) -> bool:
    return path.read_bytes()[-1:] != b"\n"


@pytest.mark.parametrize("kills", [200, pytest.param(1000, marks=pytest.mark.proof)])
def test_a_killed_writer_loses_no_returned_save(tmp_path: Path, kills: int) -> None:
    """R7 R13 R18 R24: after each SIGKILL all threads are there, and each holds every tick that was saved, whole.

    A third of the threads is held under a lock, a third keeps its last three checkpoints only.
    """
    dice, newest, torn = random.Random(kills), dict[str, int](), 0
    with writers(tmp_path / "checkpoints") as server:
        for name in islice(cycle(THREADS), kills):
            last = server.run_and_kill(name, dice.randint(1, 8), dice.random() * 1e-3)
            torn += is_torn(server.folder / f"{name}.jsonl")
            checkpointer = FileCheckpointer(server.folder)
            found = checkpointer.get_checkpoint(name)
            assert found is not None
            assert found["step"] in (last, last + 1)
            newest[name] = found["step"]
            assert checkpointer.list_threads() == sorted(newest)
    print(f"{kills} kills, {torn} of them inside a write")
    for name, step in newest.items():
        check_history(checkpointer, name, step)


def check_history(checkpointer: FileCheckpointer, name: str, newest: int) -> None:
    kind, steps = THREADS[name], [info.step for info in checkpointer.list_checkpoints(name)]
    # One more than twice as many is what a writer leaves that is killed before it shortens the file.
    kept = range(3, 8) if kind.keep_last else [newest]
    assert len(steps) in kept
    assert steps == list(range(newest, newest - len(steps), -1))
    for step in {newest, steps[len(steps) // 2], steps[-1]}:
        assert checkpointer.get_checkpoint_at(name, step) == whole(kind, step)
    lines = map(parsed, (checkpointer.directory / f"{name}.jsonl").read_bytes().splitlines())
    stored = [line for line in lines if line is not None]
    assert [line["step"] for line in stored] == steps[::-1]
    assert all({**line, **whole(kind, line["step"])} == line for line in stored)


def whole(kind: Kind, step: int) -> dict[str, Any]:
    state = content(step, kind.weight)
    return {"step": step, "state": state, "tree": {"root": "RUNNING"}, "runtime_metadata": {"tick": step}}


def parsed(line: bytes) -> dict[str, Any] | None:
    """Read a line; None for one that a kill cut off."""
    try:
        return json.loads(line)
    except ValueError:
        return None
