"""Many agents on one event loop, and one that waits without costing anything (R48)."""

import asyncio
import time

from py_trees.behaviours import Success
from py_trees.common import Status
from py_trees.composites import Sequence
from pydantic import BaseModel

from jianmu import ReactiveRunner, StateManager
from jianmu.behaviours import AsyncBehaviour
from jianmu.memory import InMemoryCheckpointer


class State(BaseModel):
    done: int = 0


class Turn(AsyncBehaviour):
    async def run(self) -> Status:
        await asyncio.sleep(0.001)
        self.state.update(done=self.state.get("done") + 1)
        return Status.SUCCESS


def agent() -> Sequence:
    """Twenty nodes."""
    stages = [Sequence(f"stage {s}", True, [Success("a"), Success("b"), Turn("turn")]) for s in range(4)]
    return Sequence("root", memory=True, children=[*stages, Success("x"), Turn("y"), Success("z")])


async def test_a_thousand_runners_on_one_loop_all_finish():
    """Each tick of each is saved; none sees another's state."""
    checkpointer = InMemoryCheckpointer()
    runners = [ReactiveRunner(agent(), StateManager(State)) for _ in range(1000)]
    runs = (runner.run(checkpointer=checkpointer, thread_id=f"agent {n}") for n, runner in enumerate(runners))
    results = await asyncio.gather(*runs)
    assert all(result == Status.SUCCESS for result in results)
    assert len(checkpointer.list_threads()) == 1000
    assert all(checkpointer.get_checkpoint(thread)["state"] == {"done": 5} for thread in checkpointer.list_threads())


async def test_waiting_five_seconds_costs_three_ticks_at_most_and_no_cpu():
    """R48: no busy loop."""

    class Wait(AsyncBehaviour):
        async def run(self) -> Status:
            await asyncio.sleep(5)
            return Status.SUCCESS

    runner = ReactiveRunner(Sequence("root", True, [Wait("wait")]), StateManager(State))
    before = time.process_time()
    result = await runner.run()
    assert result.step <= 3
    assert time.process_time() - before < 0.02
