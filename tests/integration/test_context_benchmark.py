"""The benchmark of context building runs and prints its table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "context_build.py"


def test_the_quick_form_prints_ours_beside_the_peer(tmp_path: Path) -> None:
    """R46: one table, measured in the same run."""
    ran = subprocess.run(
        [sys.executable, BENCHMARK, "--quick"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    rows = [line.split("|")[3].strip() for line in ran.stdout.splitlines()[2:]]
    assert rows == ["jianmu, same counter", "jianmu, its own estimate", "langchain-core trim_messages"] * 2
