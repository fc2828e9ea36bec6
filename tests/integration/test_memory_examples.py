"""The examples about memory print what they promise, in a folder of their own, without key or network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

PROMISES = {
    "20_memory_tools": [
        "用户喜欢 Python",
        "Stored (id: hours, key: hours)",
        "works best in the morning",
        "No results.",
    ],
    "21_mem0_chroma_without_a_key": ["用户喜欢喝绿茶", "called Momo", "every Friday at noon", "[]"],
    "22_knowledge_base": ["['black']", "['hangzhou']", "[]", "['hangzhou', 'green']"],
}


@pytest.mark.parametrize("name", PROMISES)
def test_example(name: str, tmp_path: Path) -> None:
    """R37, R32, R47: each line of output shows one promise."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI_", "MEM0_"))}
    ran = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        cwd=tmp_path,
        env=kept | {"HOME": str(tmp_path), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == len(PROMISES[name])
    assert all(promise in line for promise, line in zip(PROMISES[name], lines, strict=True)), ran.stdout
    assert list(tmp_path.iterdir()) == []
