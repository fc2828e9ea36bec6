"""What does a checkpoint in a file cost, in a chat of 300 ticks?

The chat, the peers' driver and the columns are those of ``checkpoint_engines.py``. *a plain dict* is a state that no
`StateManager` dumped: what is new in it is looked through before it is written. All contenders run in turns, seven
times each, and the quickest run of each counts: what else the machine does meanwhile then matters less. *times
SqliteSaver* is the ratio of the saves per second. A second question: does loading take longer when the file is longer?

    python benchmarks/checkpoint_file.py [--quick]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

from checkpoint_engines import Contender, Result, measure, on_disk, ours, peer, row_of, timed
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from jianmu.memory import FileCheckpointer, InMemoryCheckpointer

PEER = "langgraph SqliteSaver (WAL)"


def contenders(folder: Path, stack: ExitStack) -> list[Contender]:
    """Make all of them, each on empty storage."""

    def file(name: str, part: str, *, fsync: bool) -> Contender:
        checkpointer = FileCheckpointer(folder / part, fsync=fsync)
        stack.callback(checkpointer.close)
        return ours(name, checkpointer, lambda: in_folder(folder / part))

    plain = file("the same, given a plain dict", "plain", fsync=False)
    saver = stack.enter_context(SqliteSaver.from_conn_string(str(folder / "peer.db")))
    return [
        file("FileCheckpointer, fsync", "synced", fsync=True),
        file("FileCheckpointer, no fsync", "file", fsync=False),
        plain._replace(save=lambda tick: plain.save(tick._replace(state=dict(tick.state)))),
        peer(PEER, saver, lambda: on_disk(folder / "peer.db")),
        ours("InMemoryCheckpointer", InMemoryCheckpointer(), lambda: None),
        peer("langgraph InMemorySaver", InMemorySaver(), lambda: None),
    ]


def in_folder(folder: Path) -> int:
    return sum(part.stat().st_size for part in folder.iterdir())


def row(name: str, ticks: int, result: Result, base: Result) -> str:
    return f"{row_of(name, ticks, result)} {sum(base.saves) / sum(result.saves):.1f} |"


def best_of(rounds: int, ticks: int, folder: Path) -> dict[str, Result]:
    """Measure all contenders in turns and keep each one's quickest run."""
    runs: dict[str, list[Result]] = {}
    for number in range(rounds):
        place = folder / f"round-{number}"
        place.mkdir()
        with ExitStack() as stack:
            for contender in contenders(place, stack):
                runs.setdefault(contender.name, []).append(measure(contender, ticks))
    return {name: min(results, key=lambda result: sum(result.saves)) for name, results in runs.items()}


def long_file(folder: Path, few: int, many: int) -> str:
    """Compare loading after a few and after many saves of a state of constant size."""
    checkpointer = FileCheckpointer(folder / "long", fsync=False)
    for thread, saves in (("few", few), ("many", many)):
        for step in range(saves):
            checkpointer.save_checkpoint(thread, step, {"text": "x" * 2000})
    loads = [
        [timed(lambda thread=thread: checkpointer.get_checkpoint(thread)) for thread in ("few", "many")]
        for _ in range(200)
    ]
    short, long = (statistics.median(column) for column in zip(*loads, strict=True))
    return (
        f"Loading the newest of a thread with a state of constant size: {short * 1e6:.0f} us after {few} saves, "
        f"{long * 1e6:.0f} us after {many:,} ({long / short:.1f} times)."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few seconds, for the tests")
    quick = parser.parse_args().quick
    rounds, ticks, many = (1, 60, 300) if quick else (7, 300, 100_000)
    with tempfile.TemporaryDirectory() as name:
        results = best_of(rounds, ticks, Path(name))
        print("| | ticks | saves/s | p50 | p99 | last / 30th | load | bytes | times SqliteSaver |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        for contender, result in results.items():
            print(row(contender, ticks, result, results[PEER]))
        print(f"\n{long_file(Path(name), 10, many)}")


if __name__ == "__main__":
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "false")
    main()
