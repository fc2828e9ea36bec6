"""A child process for test_agent_killed: runs a tree of fifty nodes whose leaves append lines to a file.

``killed_agent.py SCENE`` is a fork server: each line on standard input is a number of microseconds, after which a child
that runs (or resumes) the agent is killed with SIGKILL; ``-`` lets it live. It answers with ``killed`` or ``done``.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

from py_trees.common import Status
from py_trees.composites import Selector, Sequence
from py_trees.decorators import Retry
from pydantic import BaseModel

from jianmu import ReactiveRunner, StateManager
from jianmu.behaviours import NOT_DONE, AsyncBehaviour, FunctionBehaviour, LoopUntilSuccess
from jianmu.memory import FileCheckpointer
from jianmu.state import append

SCENE = Path(sys.argv[1])
LEDGER = SCENE / "ledger.txt"


class Log(BaseModel):
    lines: Annotated[list[str], append] = []
    rounds: int = 0


def write_line(name: str, *, idempotency_key: str) -> str:
    with LEDGER.open("a") as file:
        file.write(f"{idempotency_key} {name}\n")
        file.flush()
        os.fsync(file.fileno())
    return name


def look(idempotency_key: str):
    lines = LEDGER.read_text().splitlines() if LEDGER.exists() else []
    return next((line.split(" ", 1)[1] for line in lines if line.startswith(idempotency_key)), NOT_DONE)


class Step(AsyncBehaviour):
    async def run(self) -> Status:
        await asyncio.sleep(0)
        done = await self.effect("write", write_line, self.name, reconcile=look)
        self.state.update(lines=done)
        return Status.SUCCESS


class Refuse(AsyncBehaviour):
    async def run(self) -> Status:
        self.state.update(lines=f"refused by {self.name}")
        return Status.FAILURE


def stage(name: str) -> Sequence:
    """Ten nodes: effects, a fallback, a retry."""
    return Sequence(
        name,
        memory=True,
        children=[
            Step(f"{name}-a"),
            Selector(f"{name}-choice", memory=True, children=[Refuse(f"{name}-no"), Step(f"{name}-b")]),
            Retry(f"{name}-retry", Step(f"{name}-c"), num_failures=2),
            FunctionBehaviour(f"{name}-check", lambda state: f"{name}-c" in state.get("lines")),
            Step(f"{name}-d"),
        ],
    )


def count_round(state: StateManager) -> bool:
    state.update(rounds=state.get("rounds") + 1)
    return state.get("rounds") >= 3


def make_tree() -> Sequence:
    loop = Sequence("round", memory=True, children=[Step("loop-a"), FunctionBehaviour("enough?", count_round)])
    stages = [stage(f"s{number}") for number in range(5)]
    return Sequence("root", memory=True, children=[*stages, LoopUntilSuccess("loop", loop)])


async def live() -> None:
    runner = ReactiveRunner(make_tree(), StateManager(Log))
    result = await runner.run(checkpointer=FileCheckpointer(SCENE / "checkpoints"), thread_id="agent")
    assert result == Status.SUCCESS, result


def serve() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(live())
            except BaseException as error:
                print("failed", repr(error).replace("\n", " "), flush=True)
                os._exit(1)
            os._exit(0)
        if line.strip() != "-":
            time.sleep(int(line) / 1e6)
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        print("killed" if os.WIFSIGNALED(status) else "done" if status == 0 else "failed", flush=True)


if __name__ == "__main__":
    serve()
