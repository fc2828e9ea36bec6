"""The Python blocks of README and docs run; examples and benchmarks run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_examples import CodeExample, EvalExample, find_examples

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    block
    for page in PAGES
    for block in find_examples(page)
    if block.prefix.split()[0:1] == ["python"] and "not-run" not in block.prefix
]
SCRIPTS = [
    *sorted((ROOT / "examples").glob("[1-9]*.py")),
    *sorted(path for path in (ROOT / "benchmarks").glob("*.py") if path.name != "run_all.py"),
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.path.name}:{block.start_line}")
def test_a_documented_block_runs(block: CodeExample, eval_example: EvalExample, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    eval_example.run(block)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_an_example_or_a_benchmark_runs(script: Path, tmp_path):
    arguments = ["--quick"] if script.parent.name == "benchmarks" else []
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONWARNINGS": "default"}
    environment.pop("OPENAI_API_KEY", None)
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip()
