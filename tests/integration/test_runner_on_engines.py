"""The runner on real engines: resume, time travel, durability, and an event loop that is never blocked (R7, R20)."""

import asyncio
import time
from typing import Annotated

import pytest
from py_trees.common import Status
from py_trees.composites import Sequence
from pydantic import BaseModel

from jianmu import ReactiveRunner, RuntimeEventBus, StateManager
from jianmu.behaviours import AsyncBehaviour
from jianmu.config import RuntimeCheckpointConfig
from jianmu.errors import ThreadLockedError
from jianmu.events import ListSink
from jianmu.memory import EncryptedCheckpointer, SqliteCheckpointer
from jianmu.runtime import SuspensionMode, diff_checkpoints, record_decision
from jianmu.state import append


class Log(BaseModel):
    lines: Annotated[list[str], append] = []


class Step(AsyncBehaviour):
    def __init__(self, name: str, *, hang: bool = False) -> None:
        super().__init__(name)
        self._hang = hang

    async def run(self) -> Status:
        await (asyncio.Event().wait() if self._hang else asyncio.sleep(0))
        done = await self.effect("do", lambda: self.name)
        self.state.update(lines=done)
        return Status.SUCCESS


def make(*children: AsyncBehaviour, **options) -> ReactiveRunner:
    return ReactiveRunner(Sequence("root", True, list(children)), StateManager(Log), **options)


@pytest.fixture(params=["plain", "encrypted"])
def opened(request, engine):
    """A function that opens one more checkpointer on the same data."""
    if request.param == "plain":
        return engine.open
    return lambda: EncryptedCheckpointer(engine.open(), {"k": b"0" * 32})


async def test_a_run_is_resumed_through_another_connection(opened):
    """R7: state, tree and step go on; what was done is not done again."""
    runner = make(Step("a"), Step("b", hang=True), Step("c"))
    task = asyncio.create_task(runner.run(checkpointer=opened(), thread_id="t"))
    while runner.total_tick_count < 2:
        await asyncio.sleep(0.001)
    with pytest.raises(ThreadLockedError):
        await make(Step("a")).run(checkpointer=opened(), thread_id="t")
    runner.stop()
    stopped = await task
    resumed = make(Step("a"), Step("b"), Step("c"))
    result = await resumed.run(checkpointer=opened(), thread_id="t")
    assert result == Status.SUCCESS
    assert resumed.state_manager.get("lines") == ["a", "b", "c"]
    assert result.step > stopped.step
    assert result.report is not None
    assert result.report.restarted == ("root/b",)


async def test_time_travel_and_forks(opened):
    checkpointer = opened()
    await make(Step("a"), Step("b")).run(checkpointer=checkpointer, thread_id="t")
    steps = [info.step for info in checkpointer.list_checkpoints("t")]
    early = min(s for s in steps if checkpointer.get_checkpoint_at("t", s)["state"]["lines"] == ["a"])
    checkpointer.fork("t", early, "other")
    forked = make(Step("a"), Step("b"))
    assert await forked.run({"lines": "by the way"}, checkpointer=checkpointer, thread_id="other") == Status.SUCCESS
    assert forked.state_manager.get("lines") == ["a", "by the way", "b"]
    back = make(Step("a"), Step("b"))
    assert await back.run(checkpointer=checkpointer, thread_id="t", from_step=early) == Status.SUCCESS
    assert back.state_manager.get("lines") == ["a", "b"]
    diff = diff_checkpoints(checkpointer.get_checkpoint_at("t", early), checkpointer.get_checkpoint("t"))
    assert diff.state == {"lines[1]": ("<absent>", "b")}
    assert diff.tree["root"] == ("RUNNING", "SUCCESS")


async def test_a_decision_is_recorded_by_another_process_s_checkpointer(opened):
    from jianmu.behaviours import ApprovalGate

    def tree():
        return ApprovalGate("gate", tool="pay", args={"amount": 5})

    first = ReactiveRunner(tree(), StateManager(Log), suspension_mode=SuspensionMode.YIELD)
    result = await first.run(checkpointer=opened(), thread_id="t")
    record_decision(opened(), "t", result.requests[0], approved=True)
    assert await ReactiveRunner(tree(), StateManager(Log)).run(checkpointer=opened(), thread_id="t") == Status.SUCCESS


@pytest.mark.parametrize("durability", ["async", "exit"])
async def test_everything_is_saved_before_an_effect_whatever_the_durability(engine, durability):
    """The save before an external effect is done before the effect."""
    checkpointer = engine.open()
    seen: list[str] = []

    class Look(AsyncBehaviour):
        async def run(self) -> Status:
            await self.effect("look", self.look)
            return Status.SUCCESS

        def look(self) -> None:
            saved = engine.open().get_checkpoint("t")
            seen.append(f"{saved['state']['lines']} {list(saved['runtime_metadata']['effects'])}")

    runner = make(Step("a"), Look("look"))
    await runner.run(checkpointer=checkpointer, thread_id="t", durability=durability)
    assert seen == ["['a'] ['root/a', 'root/look']"]
    assert checkpointer.get_checkpoint("t")["tree"]["root"] == "SUCCESS"


@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_saving_never_blocks_the_event_loop(tmp_path, durability):
    class Slow(SqliteCheckpointer):
        local = False  # as behind a network

        def save_checkpoint(self, *args, **kwargs):
            time.sleep(0.1)
            super().save_checkpoint(*args, **kwargs)

    gaps: list[float] = []

    async def pulse() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            gaps.append(time.perf_counter() - last)
            last = time.perf_counter()

    heart = asyncio.create_task(pulse())
    with Slow(tmp_path / "slow.db") as checkpointer:
        await make(Step("a"), Step("b")).run(checkpointer=checkpointer, thread_id="t", durability=durability)
    heart.cancel()
    assert sorted(gaps)[len(gaps) * 9 // 10] < 0.05, "the loop stood still while a save slept"


async def test_each_backend_can_be_named_by_the_configuration(tmp_path, postgres_url, redis_url):
    """R20: enabled makes the configured backend."""
    places = {"sqlite": str(tmp_path / "c.db"), "postgres": postgres_url, "redis": redis_url}
    for backend, url in places.items():
        bus, sink = RuntimeEventBus(), ListSink()
        bus.attach(sink)
        config = RuntimeCheckpointConfig(enabled=True, backend=backend, url=url)
        runner = make(Step("a"), checkpoint_config=config, events=bus)
        assert await runner.run(thread_id=f"by-config-{tmp_path.name}") == Status.SUCCESS
        assert sink.of_type("checkpoint.saved")
