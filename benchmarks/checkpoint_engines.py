"""What does a checkpoint cost in SQLite, PostgreSQL and Redis, in a chat of 300 ticks and in one of 3,000?

One message is added a tick, beside a turn counter, the statuses of a tree of twelve nodes and what a runner keeps
beside them. Ours are given the dumps of a `StateManager`, as a runner gives them: values that did not change are the
same objects as in the dump before. The peers are LangGraph's savers, driven through ``put`` and ``get_tuple`` as a
graph drives them, with the same content as channels; their list of messages shares its items in the same way. Only the
save is timed, never the making of what is saved. *load* reads the newest checkpoint. *bytes* is what is on disk (or in
the server) with the file still open, the write-ahead log included.

    python benchmarks/checkpoint_engines.py [--quick] [--plot docs/assets/bytes-per-tick.png]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import psycopg
import redis
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from pydantic import BaseModel

from jianmu import Message, StateManager
from jianmu.memory import (
    EncryptedCheckpointer,
    InMemoryCheckpointer,
    PostgresCheckpointer,
    RedisCheckpointer,
    SqliteCheckpointer,
)
from jianmu.state import append

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.servers import running_postgres, running_redis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

THREAD = "session-42"
NODES = [f"root/step-{number}" for number in range(12)]


class Chat(BaseModel):
    """The state of the run."""

    topic: str = "green tea"
    turn: int = 0
    messages: Annotated[list[Message], append] = []


class Tick(NamedTuple):
    """What a tick leaves to be saved."""

    step: int
    state: Any
    tree: dict[str, str]
    metadata: dict[str, Any]


class Contender(NamedTuple):
    """One way to store checkpoints."""

    name: str
    save: Callable[[Tick], None]
    load: Callable[[], Any]
    size: Callable[[], int | None]


class Result(NamedTuple):
    """What was measured of one contender."""

    saves: list[float]
    load: float
    sizes: list[tuple[int, int]]


def run(ticks: int) -> Iterator[Tick]:
    """Live through a chat."""
    state = StateManager(Chat)
    state.initialize()
    tree = dict.fromkeys(NODES, "INVALID")
    for step in range(1, ticks + 1):
        text = f"message {step}: " + "which green tea is in stock, and when would it reach Berlin? " * 2
        state.update(messages=Message.user(text), turn=step)
        tree = {**tree, NODES[step % 12]: "SUCCESS" if step // 12 % 2 else "RUNNING"}
        yield Tick(step, state.dump_checkpoint(), tree, {"tree": {"digest": "5f1c", "nodes": {NODES[step % 12]: step}}})


def ours(name: str, checkpointer: Any, size: Callable[[], int | None]) -> Contender:
    return Contender(
        name,
        lambda tick: checkpointer.save_checkpoint(THREAD, tick.step, tick.state, tick.tree, tick.metadata),
        lambda: checkpointer.get_checkpoint(THREAD),
        size,
    )


def peer(name: str, saver: Any, size: Callable[[], int | None]) -> Contender:
    config: dict[str, Any] = {"configurable": {"thread_id": THREAD, "checkpoint_ns": ""}}
    newest = dict(config)

    def save(tick: Tick) -> None:
        channels = {**tick.state, "tree": tick.tree, "runtime": tick.metadata}
        versions = {channel: tick.step if channel != "topic" else 1 for channel in channels}
        changed = {channel: version for channel, version in versions.items() if version == tick.step}
        checkpoint = empty_checkpoint() | {"channel_values": channels, "channel_versions": versions}
        newest.update(saver.put(newest, checkpoint, {"source": "loop", "step": tick.step}, changed))

    return Contender(name, save, lambda: saver.get_tuple(config), size)


def contenders(folder: Path, postgres: str, redis_url: str, stack: ExitStack) -> list[Contender]:
    """Make all of them, each on empty storage."""
    folder.mkdir()
    files = {name: folder / f"{name}.db" for name in ("ours", "full", "sealed", "peer")}
    client = stack.enter_context(redis.Redis.from_url(redis_url))
    client.flushall()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS jianmu CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    normal = stack.enter_context(SqliteCheckpointer(files["ours"]))
    full = stack.enter_context(SqliteCheckpointer(files["full"], synchronous="FULL"))
    sealed = stack.enter_context(SqliteCheckpointer(files["sealed"]))
    encrypted = EncryptedCheckpointer(sealed, {"2026-05": os.urandom(32)})
    server = stack.enter_context(PostgresCheckpointer(postgres))
    cache = stack.enter_context(RedisCheckpointer(redis_url))
    lite_saver = stack.enter_context(SqliteSaver.from_conn_string(str(files["peer"])))
    server_saver = stack.enter_context(PostgresSaver.from_conn_string(postgres))
    server_saver.setup()
    return [
        ours("SqliteCheckpointer", normal, lambda: on_disk(files["ours"])),
        ours("SqliteCheckpointer, synchronous=FULL", full, lambda: on_disk(files["full"])),
        ours("SqliteCheckpointer, encrypted", encrypted, lambda: on_disk(files["sealed"])),
        peer("langgraph SqliteSaver", lite_saver, lambda: on_disk(files["peer"])),
        ours("PostgresCheckpointer", server, lambda: in_schema(postgres, "jianmu")),
        peer("langgraph PostgresSaver", server_saver, lambda: in_schema(postgres, "public")),
        ours("RedisCheckpointer", cache, lambda: in_redis(client)),
        ours("InMemoryCheckpointer", InMemoryCheckpointer(), lambda: None),
        peer("langgraph InMemorySaver", InMemorySaver(), lambda: None),
    ]


def on_disk(path: Path) -> int:
    return sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*"))


def in_schema(url: str, schema: str) -> int:
    query = (
        "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class"
        " WHERE relkind = 'r' AND relnamespace = %s::regnamespace"
    )
    with psycopg.connect(url) as connection:
        row = connection.execute(query, (schema,)).fetchone()
    return row[0] if row else 0


def in_redis(client: Any) -> int:
    return sum(client.memory_usage(key, samples=0) for key in client.scan_iter("jianmu:*"))


def measure(contender: Contender, ticks: int) -> Result:
    saves: list[float] = []
    sizes: list[tuple[int, int]] = []
    for tick in run(ticks):
        start = time.perf_counter()
        contender.save(tick)
        saves.append(time.perf_counter() - start)
        if tick.step % max(1, ticks // 30) == 0:
            size = contender.size()
            if size is not None:
                sizes.append((tick.step, size))
    return Result(saves, statistics.median(timed(contender.load) for _ in range(25)), sizes)


def timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def row_of(name: str, ticks: int, result: Result) -> str:
    ordered = sorted(result.saves)
    p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    early, late = statistics.median(result.saves[20:40]), statistics.median(result.saves[-20:])
    size = f"{result.sizes[-1][1] / 1e6:,.2f} MB" if result.sizes else "-"
    rate = f"{len(ordered) / sum(ordered):,.0f}"
    return (
        f"| {name} | {ticks:,} | {rate} | {p50 * 1e6:,.0f} us | {p99 * 1e6:,.0f} us | {late / early:.1f} "
        f"| {result.load * 1e3:.2f} ms | {size} |"
    )


def long_thread(folder: Path, many: int) -> str:
    """Compare reading the newest checkpoint of a short thread with that of a very long one.

    The state keeps the last ten messages. Each figure is the median over 64 saves with a read after each, so that all
    lengths of a chain count alike.
    """
    state = StateManager(Chat)
    state.initialize()
    loads: dict[int, list[float]] = {}
    with SqliteCheckpointer(folder / "long.db") as checkpointer:
        for step in range(1, many + 65):
            window = state.get("messages")[-9:]
            state.initialize({"turn": step, "messages": [*window, Message.user(f"message {step} " + "tea " * 30)]})
            checkpointer.save_checkpoint(THREAD, step, state.dump_checkpoint())
            after = next((count for count in (10, many) if count <= step < count + 64), None)
            if after is not None:
                loads.setdefault(after, []).append(timed(lambda: checkpointer.get_checkpoint(THREAD)))
    few, lots = statistics.median(loads[10]), statistics.median(loads[many])
    return (
        f"Loading the newest of a SQLite thread with a state of constant size: {few * 1e6:.0f} us after 10 saves, "
        f"{lots * 1e6:.0f} us after {many:,} ({lots / few:.1f} times)."
    )


def plot(path: Path, curves: dict[str, list[tuple[int, int]]]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.5), dpi=120)
    for name, sizes in curves.items():
        if "FULL" in name:
            continue  # the same file as without it
        axes.plot([tick for tick, _ in sizes], [size / tick / 1e3 for tick, size in sizes], label=name)
    axes.set(yscale="log", xlabel="ticks", ylabel="kB stored per tick", title="One message a tick: what a tick costs")
    axes.grid(visible=True, which="both", alpha=0.25)
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few seconds, for the tests")
    parser.add_argument("--plot", type=Path, help="where to draw the bytes per tick of the longest run")
    options = parser.parse_args()
    lengths, many = ([60], 500) if options.quick else ([300, 3000], 100_000)
    curves: dict[str, list[tuple[int, int]]] = {}
    print("| | ticks | saves/s | p50 | p99 | last / 30th | load | bytes |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name, ExitStack() as servers:
        folder = Path(name)
        for part in ("postgres", "redis"):
            (folder / part).mkdir()
        postgres = servers.enter_context(running_postgres(folder / "postgres"))
        redis_url = servers.enter_context(running_redis(folder / "redis"))
        for ticks in lengths:
            with ExitStack() as stack:
                for contender in contenders(folder / str(ticks), postgres, redis_url, stack):
                    result = measure(contender, ticks)
                    print(row_of(contender.name, ticks, result), flush=True)
                    if result.sizes:
                        curves[contender.name] = result.sizes
        print(f"\n{long_thread(folder, many)}")
    if options.plot:
        plot(options.plot, curves)


if __name__ == "__main__":
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "false")
    main()
