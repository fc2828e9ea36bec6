"""Sixteen processes on sixty-four threads: no save is lost, no read is torn, and who has no right is refused."""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from tests.engines import Engine

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seconds", [3, pytest.param(30, marks=pytest.mark.proof)])
def test_sixteen_processes_lose_nothing(engine: Engine, seconds: float) -> None:
    """R15: every save that returned is in what its thread holds at the end, exactly once."""
    command = [sys.executable, "-m", "tests.faults.engine_crowd", engine.spec, "16", "64", str(seconds)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    answers = json.loads(done.stdout)
    saved: dict[str, list[str]] = defaultdict(list)
    for answer in answers:
        for thread, entry in answer["saved"]:
            saved[thread].append(entry)
    assert len(answers) == 16
    assert sum(len(entries) for entries in saved.values()) > 100
    assert [answer["torn"] for answer in answers] == [0] * 16
    assert sum(answer["intruded"] for answer in answers) > 0
    assert [answer["refused"] for answer in answers] == [answer["intruded"] for answer in answers]

    checkpointer = engine.open()
    assert checkpointer.list_threads() == sorted(saved)
    for thread, entries in saved.items():
        state = checkpointer.get_checkpoint(thread)["state"]
        assert sorted(state["entries"]) == sorted(entries)
        steps = [info.step for info in checkpointer.list_checkpoints(thread)]
        assert steps == list(range(len(entries), 0, -1))
