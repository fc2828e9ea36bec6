"""Writers that are killed at any moment: what a returned save stored stays, and nothing is half there."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.engines import Engine
from tests.faults.engine_writer import content

ROOT = Path(__file__).parents[2]


def run_and_kill(engine: Engine, after: int) -> int:
    """Let a writer go on, kill it after so many saves, and return the last step that it said was saved."""
    command = [sys.executable, "-m", "tests.faults.engine_writer", engine.spec]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(after)]
        writer.send_signal(signal.SIGKILL)
        said += writer.stdout.readlines()
    assert writer.returncode == -signal.SIGKILL
    return max(int(line) for line in said if line.endswith("\n"))


@pytest.mark.parametrize("kills", [[1, 7, 40], pytest.param([*range(1, 30, 3), 200, 500], marks=pytest.mark.proof)])
def test_a_killed_writer_loses_no_returned_save(engine: Engine, kills: list[int]) -> None:
    """R7 R18 R24: the next process finds the last saved tick, or the one that was under way, whole; and goes on.

    The lock of the killed process does not stand in the next one's way.
    """
    for after in kills:
        last = run_and_kill(engine, after)
        checkpointer = engine.open()
        newest = checkpointer.get_checkpoint("chat")
        assert newest["step"] in (last, last + 1)
        steps = [info.step for info in checkpointer.list_checkpoints("chat")]
        assert steps == list(range(newest["step"], 0, -1))
        for step in {1, last // 2 + 1, last - 1 or 1, last, newest["step"]}:
            envelope = checkpointer.get_checkpoint_at("chat", step)
            assert envelope == {
                "step": step,
                "state": content(step),
                "tree": {"root": "RUNNING"},
                "runtime_metadata": {"tick": step},
            }
