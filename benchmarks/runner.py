"""What does the runner cost beside raw py_trees ticks, how quickly does it wake, and how many fit on one event loop?

Without saving, both tick the same tree of 100 nodes. Waking is the time from a leaf's completion to the tick that sees
it; asyncio's own task wake-up stands beside it. A thousand agents run on one loop, each a tree of 20 nodes with
asynchronous leaves, each tick saved in memory.
"""

import argparse
import asyncio
import resource
import statistics
import time

from py_trees.behaviour import Behaviour
from py_trees.behaviours import Success
from py_trees.common import ParallelPolicy, Status
from py_trees.composites import Parallel, Sequence
from pydantic import BaseModel

from jianmu import ReactiveRunner, StateManager
from jianmu.behaviours import AsyncBehaviour
from jianmu.memory import InMemoryCheckpointer


class State(BaseModel):
    done: int = 0


class Countdown(Behaviour):
    """RUNNING for so many ticks."""

    def __init__(self, name: str, ticks: int) -> None:
        super().__init__(name)
        self.left = ticks

    def update(self) -> Status:
        self.left -= 1
        return Status.RUNNING if self.left > 0 else Status.SUCCESS


def hundred_nodes(ticks: int) -> Parallel:
    branches = [
        Sequence(f"branch {b}", memory=False, children=[*(Success(f"{n}") for n in range(8)), Countdown("wait", ticks)])
        for b in range(10)
    ]
    return Parallel("root", ParallelPolicy.SuccessOnAll(), branches)


def raw(ticks: int) -> float:
    tree = hundred_nodes(ticks)
    start = time.perf_counter()
    for _ in range(ticks):
        tree.tick_once()
    return (time.perf_counter() - start) / ticks * 1e6


async def with_runner(ticks: int) -> float:
    runner = ReactiveRunner(hundred_nodes(ticks), StateManager(State), idle_interval=1e-9)
    start = time.perf_counter()
    result = await runner.run()
    return (time.perf_counter() - start) / result.step * 1e6


class Stamp(AsyncBehaviour):
    """Notes when its work is done and when the tick sees it."""

    def __init__(self, spans: list[float]) -> None:
        super().__init__("stamp")
        self._spans = spans
        self._done = 0.0

    async def run(self) -> Status:
        await asyncio.sleep(0.002)
        self._done = time.perf_counter()
        return Status.SUCCESS

    def terminate(self, new_status: Status) -> None:
        self._spans.append((time.perf_counter() - self._done) * 1e6)
        super().terminate(new_status)


async def wake_latency(count: int) -> float:
    spans: list[float] = []
    tree = Sequence("root", memory=True, children=[Stamp(spans) for _ in range(count)])
    await ReactiveRunner(tree, StateManager(State)).run()
    return statistics.median(spans)


async def task_latency(count: int) -> float:
    spans: list[float] = []

    async def work() -> float:
        await asyncio.sleep(0.002)
        return time.perf_counter()

    for _ in range(count):
        done = await asyncio.create_task(work())
        spans.append((time.perf_counter() - done) * 1e6)
    return statistics.median(spans)


class Turn(AsyncBehaviour):
    async def run(self) -> Status:
        await asyncio.sleep(0.01)
        self.state.update(done=self.state.get("done") + 1)
        return Status.SUCCESS


async def many_agents(count: int) -> tuple[float, float]:
    def agent() -> Sequence:
        stages = [Sequence(f"stage {s}", True, [Success("a"), Success("b"), Turn("turn")]) for s in range(4)]
        return Sequence("root", memory=True, children=[*stages, Success("x"), Turn("y"), Success("z")])

    checkpointer = InMemoryCheckpointer()
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    runners = [ReactiveRunner(agent(), StateManager(State)) for _ in range(count)]
    results = await asyncio.gather(
        *(runner.run(checkpointer=checkpointer, thread_id=f"agent {n}") for n, runner in enumerate(runners))
    )
    assert all(result == Status.SUCCESS for result in results)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return time.perf_counter() - start, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer ticks, waits and agents")
    quick = parser.parse_args().quick
    ticks, waits, agents = (30, 20, 50) if quick else (300, 200, 1000)
    pairs = [(raw(ticks), asyncio.run(with_runner(ticks))) for _ in range(7)]
    base, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    latency, task = asyncio.run(wake_latency(waits)), asyncio.run(task_latency(waits))
    seconds, megabytes = asyncio.run(many_agents(agents))
    print("| | Jianmu | beside | ratio |")
    print("|---|---|---|---|")
    print(f"| tick of 101 nodes, no saving (us) | {ours:.0f} | py_trees {base:.0f} | {ours / base:.2f} |")
    print(f"| from a leaf's completion to its tick (us) | {latency:.0f} | asyncio task {task:.0f} | |")
    print(f"| {agents} agents of 20 nodes on one loop, each tick saved (s) | {seconds:.1f} | | |")
    print(f"| the same, memory (MiB) | {megabytes:.0f} | | |")


if __name__ == "__main__":
    main()
