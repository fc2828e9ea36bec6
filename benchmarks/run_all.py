"""Runs every benchmark of this folder and writes what they print to ``results.md``."""

import argparse
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
PEERS = (
    "py_trees", "pydantic", "langgraph", "langgraph-checkpoint", "langgraph-checkpoint-sqlite",
    "langgraph-checkpoint-postgres", "langchain-core", "mem0ai", "chromadb",
)  # fmt: skip


def run(script: Path, quick: bool) -> str:
    """Run one script and return its section."""
    print(f"running {script.name} ...", file=sys.stderr)
    start = time.monotonic()
    command = [sys.executable, str(script), *(["--quick"] if quick else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{script.name} failed:\n{done.stderr}")
    took = time.monotonic() - start
    question = script.read_text().split('"""')[1].splitlines()[0]
    return f"## {script.stem}\n\n{question}\n\n{done.stdout.strip()}\n\n({took:.0f} s)\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds each; prints, and writes nothing")
    quick = parser.parse_args().quick
    scripts = sorted(path for path in HERE.glob("*.py") if path.name != "run_all.py")
    versions = ", ".join(f"{name} {version(name)}" for name in PEERS)
    head = (
        "# Benchmarks\n\nWritten by `make bench`. Each table compares Jianmu with its peers in one run on one machine: "
        f"read the ratios, not the figures. Python {platform.python_version()}, {versions}.\n"
    )
    text = "\n".join([head, *(run(script, quick) for script in scripts)])
    print(text)
    if not quick:
        (HERE / "results.md").write_text(text)


if __name__ == "__main__":
    main()
