"""R2, R49: the integration example of the specification runs as written, with the real mem0ai and Chroma."""

import json
import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "40_checkpoint_and_long_term_memory.py"
AS_WRITTEN = [
    "from jianmu import ReactiveRunner, StateManager",
    "from jianmu.memory import FileCheckpointer, Mem0LongTermMemory, MemoryService",
    "from jianmu.memory.tools import create_memory_tools",
    'checkpointer = FileCheckpointer(".outputs/jianmu/checkpoints")',
    'memory_service = MemoryService(ltm, namespace=("my_agent",))',
    "memory_tools = memory_service.as_tools()",
    "runner = ReactiveRunner(root=my_tree, state_manager=state_mgr)",
    'thread_id="session-42"',
    "checkpoint_interval=1",
]


def run(folder: Path) -> str:
    environment = {**os.environ, "HOME": str(folder)}
    environment.pop("OPENAI_API_KEY", None)
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_stands_as_written():
    """R49: but for the tree and the keyless configuration."""
    text = EXAMPLE.read_text()
    for line in AS_WRITTEN:
        assert line in text, line


def test_the_example_runs_resumes_and_remembers(tmp_path):
    """R49, R26: a second run of the finished thread ticks nothing; the memory is found by its meaning."""
    first = run(tmp_path)
    assert "SUCCESS after step" in first
    assert "Stored (id: " in first
    assert "The user prefers Python" in first
    lines = (tmp_path / ".outputs/jianmu/checkpoints/session-42.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["tree"]["remember and recall"] == "SUCCESS"
    assert run(tmp_path) == first
    assert len((tmp_path / ".outputs/jianmu/checkpoints/session-42.jsonl").read_text().splitlines()) == len(lines)
