"""Effects that are done once, and humans that decide."""

import asyncio
import threading
from typing import Annotated, Any

import pytest
from py_trees.common import ParallelPolicy, Status
from py_trees.composites import Parallel, Sequence
from py_trees.decorators import Retry
from pydantic import BaseModel

from jianmu import ReactiveRunner, RuntimeEventBus, StateManager
from jianmu.behaviours import NOT_DONE, ApprovalGate, AsyncBehaviour
from jianmu.errors import (
    CheckpointNotFoundError,
    EffectInDoubtError,
    RequestDecidedError,
    SerializationError,
    UnknownRequestError,
)
from jianmu.events import ListSink
from jianmu.memory import InMemoryCheckpointer
from jianmu.runtime import SuspensionMode, pending_requests, record_decision
from jianmu.state import append


class State(BaseModel):
    lines: Annotated[list[Any], append] = []
    verdict: dict[str, Any] = {}


class World:
    """The outside: what was done stays done."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.keys: list[str] = []
        self.hang = False
        self.reached = asyncio.Event()

    async def pay(self, amount: int, *, idempotency_key: str) -> dict[str, int]:
        self.done.append(f"pay {amount}")
        self.keys.append(idempotency_key)
        self.reached.set()
        if self.hang:
            await asyncio.Event().wait()
        return {"paid": amount}


class Pay(AsyncBehaviour):
    def __init__(self, world: World, *, then_hang: bool = False, amount: int = 5, **options: Any) -> None:
        super().__init__("pay")
        self._world, self._then_hang, self._amount, self._options = world, then_hang, amount, options
        self.paid = asyncio.Event()

    async def run(self) -> Status:
        receipt = await self.effect("charge", self._world.pay, self._amount, **self._options)
        self.paid.set()
        if self._then_hang:
            await asyncio.Event().wait()
        self.state.update(lines=receipt)
        return Status.SUCCESS


def runner_for(root: Any, **options: Any) -> tuple[ReactiveRunner, ListSink]:
    bus, sink = RuntimeEventBus(), ListSink()
    bus.attach(sink)
    return ReactiveRunner(root, StateManager(State), events=bus, **options), sink


async def crash_when(event: asyncio.Event, root: Any, checkpointer: Any) -> None:
    task = asyncio.create_task(runner_for(root)[0].run(checkpointer=checkpointer, thread_id="t"))
    reached = asyncio.create_task(event.wait())
    await asyncio.wait([reached, task], return_when=asyncio.FIRST_COMPLETED)
    reached.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_finished_effect_is_not_done_again_and_gives_its_saved_result():
    checkpointer, world = InMemoryCheckpointer(), World()
    leaf = Pay(world, then_hang=True)
    await crash_when(leaf.paid, leaf, checkpointer)
    runner, sink = runner_for(Pay(world))
    assert await runner.run(checkpointer=checkpointer, thread_id="t") == Status.SUCCESS
    assert world.done == ["pay 5"]
    assert runner.state_manager.get("lines") == [{"paid": 5}]
    assert sink.of_type("effect.reused")


async def crash_in_effect() -> tuple[InMemoryCheckpointer, World]:
    checkpointer, world = InMemoryCheckpointer(), World()
    world.hang = True
    await crash_when(world.reached, Pay(world), checkpointer)
    world.hang = False
    return checkpointer, world


async def test_that_an_effect_started_is_saved_before_it():
    checkpointer, _ = await crash_in_effect()
    (entry,) = checkpointer.get_checkpoint("t")["runtime_metadata"]["effects"]["pay"]["effects"].values()
    assert entry == {"status": "started"}


async def test_an_effect_in_doubt_fails_rather_than_being_repeated():
    checkpointer, world = await crash_in_effect()
    runner, sink = runner_for(Pay(world))
    result = await runner.run(checkpointer=checkpointer, thread_id="t")
    assert result == Status.FAILURE
    assert isinstance(result.errors[0][1], EffectInDoubtError)
    assert world.done == ["pay 5"]
    assert sink.of_type("effect.in_doubt")


async def test_an_idempotent_effect_in_doubt_is_run_again_with_the_same_key():
    checkpointer, world = await crash_in_effect()
    result = await runner_for(Pay(world, idempotent=True))[0].run(checkpointer=checkpointer, thread_id="t")
    assert result == Status.SUCCESS
    assert world.done == ["pay 5", "pay 5"]
    assert world.keys[0] == world.keys[1]


@pytest.mark.parametrize("happened", [True, False])
async def test_reconcile_asks_the_outside_world(happened):
    checkpointer, world = await crash_in_effect()

    async def look(key: str) -> Any:
        assert key == world.keys[0]
        return {"paid": 5} if happened else NOT_DONE

    runner, _ = runner_for(Pay(world, reconcile=look))
    assert await runner.run(checkpointer=checkpointer, thread_id="t") == Status.SUCCESS
    assert runner.state_manager.get("lines") == [{"paid": 5}]
    assert len(world.done) == (1 if happened else 2)


@pytest.mark.parametrize("again", [True, False])
async def test_a_human_can_settle_an_effect_in_doubt(again):
    checkpointer, world = await crash_in_effect()
    runner, _ = runner_for(Pay(world, in_doubt="ask"), suspension_mode=SuspensionMode.YIELD)
    result = await runner.run(checkpointer=checkpointer, thread_id="t")
    assert result.suspended
    record_decision(checkpointer, "t", result.requests[0], approved=again)
    result = await runner_for(Pay(world, in_doubt="ask"))[0].run(checkpointer=checkpointer, thread_id="t")
    assert result == (Status.SUCCESS if again else Status.FAILURE)
    assert len(world.done) == (2 if again else 1)


async def test_an_effect_in_doubt_is_not_passed_over_by_other_arguments():
    checkpointer, world = await crash_in_effect()
    result = await runner_for(Pay(world, amount=6))[0].run(checkpointer=checkpointer, thread_id="t")
    assert "other arguments" in str(result.errors[0][1])
    assert world.done == ["pay 5"]


async def test_each_round_of_a_loop_does_its_own_effect():
    world = World()
    runner, _ = runner_for(Sequence("root", True, [Pay(world)]))
    from py_trees.decorators import Repeat

    runner, _ = runner_for(Repeat("twice", Pay(world), num_success=2))
    assert await runner.run(checkpointer=InMemoryCheckpointer(), thread_id="t") == Status.SUCCESS
    assert world.done == ["pay 5", "pay 5"]
    assert world.keys[0] != world.keys[1]


async def test_a_leaf_that_raised_keeps_what_it_had_done_for_its_next_try():
    world, tries = World(), []

    class Flaky(Pay):
        async def run(self) -> Status:
            status = await super().run()
            tries.append(1)
            if len(tries) < 3:
                raise ConnectionError("later step failed")
            return status

    runner, _ = runner_for(Retry("retry", Flaky(world), num_failures=5))
    assert await runner.run() == Status.SUCCESS
    assert world.done == ["pay 5"]
    assert runner.state_manager.get("lines") == [{"paid": 5}]


async def test_an_effect_that_raised_did_not_happen_and_may_be_tried_again():
    calls: list[int] = []

    class Try(AsyncBehaviour):
        async def run(self) -> Status:
            await self.effect("call", self.call)
            return Status.SUCCESS

        def call(self) -> None:
            calls.append(1)
            if len(calls) < 2:
                raise ConnectionError

    assert await runner_for(Retry("retry", Try("try"), num_failures=3))[0].run() == Status.SUCCESS
    assert len(calls) == 2


async def test_a_result_that_is_no_data_is_an_error_and_the_effect_is_not_repeated():
    calls: list[int] = []

    class Odd(AsyncBehaviour):
        async def run(self) -> Status:
            await self.effect("odd", self.call)
            return Status.SUCCESS

        def call(self) -> object:
            calls.append(1)
            return object()

    result = await runner_for(Retry("retry", Odd("odd"), num_failures=3))[0].run()
    assert isinstance(result.errors[0][1], SerializationError)
    assert len(calls) == 1


def gate(name: str = "gate", **options: Any) -> ApprovalGate:
    return ApprovalGate(name, tool="pay", args={"amount": 5}, store="verdict", **options)


async def test_a_request_made_in_one_run_is_decided_elsewhere_and_used_in_a_third():
    """R23: YIELD saves, then returns; the decision is single-use."""
    checkpointer = InMemoryCheckpointer()
    runner, sink = runner_for(gate(), suspension_mode=SuspensionMode.YIELD)
    result = await runner.run(checkpointer=checkpointer, thread_id="t")
    assert result == Status.RUNNING
    assert result.suspended
    (request,) = pending_requests(checkpointer, "t")
    assert (request, request.args) == (result.requests[0], {"amount": 5})
    last = sink.of_type("checkpoint.saved")[-1]
    assert last.payload["forced"] is True
    record_decision(
        checkpointer, "t", request.id, args_hash=request.args_hash, approved=True, by="ann", args={"amount": 4}
    )
    with pytest.raises(RequestDecidedError):
        record_decision(checkpointer, "t", request, approved=True)
    runner, _ = runner_for(gate())
    assert await runner.run(checkpointer=checkpointer, thread_id="t") == Status.SUCCESS
    assert runner.state_manager.get("verdict") == {
        "outcome": "approved",
        "args": {"amount": 4},
        "by": "ann",
        "reason": "",
    }
    with pytest.raises(RequestDecidedError):
        record_decision(checkpointer, "t", request, approved=True)


async def test_a_pending_request_is_published_again_on_resume_with_the_same_id():
    checkpointer = InMemoryCheckpointer()
    first, _ = runner_for(gate(), suspension_mode=SuspensionMode.YIELD)
    before = await first.run(checkpointer=checkpointer, thread_id="t")
    second, sink = runner_for(gate(), suspension_mode=SuspensionMode.YIELD)
    after = await second.run(checkpointer=checkpointer, thread_id="t")
    assert after.requests == before.requests
    assert sink.of_type("approval.requested")[0].payload["request_id"] == before.requests[0].id


async def test_block_waits_in_the_process_and_the_decision_is_saved_before_the_leaf_goes_on():
    checkpointer = InMemoryCheckpointer()
    runner, sink = runner_for(gate())
    task = asyncio.create_task(runner.run(checkpointer=checkpointer, thread_id="t"))
    while not runner.pending_requests:
        await asyncio.sleep(0)
    assert any("waits for a decision on 'pay'" in line for line in runner.explain_wait())
    runner.deny(runner.pending_requests[0], reason="too much")
    assert await task == Status.FAILURE
    assert runner.state_manager.get("verdict")["reason"] == "too much"
    types = [event.type for event in sink.events]
    decided = types.index("approval.decided")
    assert "checkpoint.saved" in types[decided : types.index("run.finished")]


async def test_a_decision_may_come_from_another_thread():
    runner, _ = runner_for(gate())
    task = asyncio.create_task(runner.run())
    while not runner.pending_requests:
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    thread = threading.Thread(target=lambda: runner.approve(runner.pending_requests[0], by="thread"))
    thread.start()
    assert await asyncio.wait_for(task, 5) == Status.SUCCESS
    thread.join()
    assert runner.state_manager.get("verdict")["by"] == "thread"


async def test_a_decision_given_before_the_run_is_taken_at_its_start():
    checkpointer = InMemoryCheckpointer()
    result = await runner_for(gate(), suspension_mode=SuspensionMode.YIELD)[0].run(
        checkpointer=checkpointer, thread_id="t"
    )
    runner, _ = runner_for(gate())
    runner.approve(result.requests[0])
    assert await runner.run(checkpointer=checkpointer, thread_id="t") == Status.SUCCESS


async def test_unknown_requests_and_unseen_arguments_are_refused():
    checkpointer = InMemoryCheckpointer()
    result = await runner_for(gate(), suspension_mode=SuspensionMode.YIELD)[0].run(
        checkpointer=checkpointer, thread_id="t"
    )
    with pytest.raises(UnknownRequestError, match="has no request 'nope'"):
        record_decision(checkpointer, "t", "nope", args_hash="x", approved=True)
    with pytest.raises(UnknownRequestError, match="read the request again"):
        record_decision(checkpointer, "t", result.requests[0].id, args_hash="other", approved=True)
    with pytest.raises(CheckpointNotFoundError):
        record_decision(checkpointer, "unknown", result.requests[0], approved=True)


async def test_several_requests_of_parallel_branches_are_decided_in_any_order():
    checkpointer = InMemoryCheckpointer()

    def tree() -> Parallel:
        return Parallel("both", ParallelPolicy.SuccessOnAll(), [ApprovalGate(n, tool=n) for n in ("a", "b", "c")])

    runner, _ = runner_for(tree(), suspension_mode=SuspensionMode.YIELD)
    result = await runner.run(checkpointer=checkpointer, thread_id="t")
    assert [request.tool for request in result.requests] == ["a", "b", "c"]
    record_decision(checkpointer, "t", result.requests[1], approved=True)
    runner, _ = runner_for(tree(), suspension_mode=SuspensionMode.YIELD)
    result = await runner.run(checkpointer=checkpointer, thread_id="t")
    assert [request.tool for request in result.requests] == ["a", "c"]
    for request in result.requests:
        record_decision(checkpointer, "t", request, approved=True)
    assert await runner_for(tree())[0].run(checkpointer=checkpointer, thread_id="t") == Status.SUCCESS


async def test_a_request_expires():
    runner, sink = runner_for(gate(expires_in=0.02))
    assert await runner.run() == Status.FAILURE
    assert runner.state_manager.get("verdict")["outcome"] == "expired"
    assert sink.of_type("approval.expired")


async def test_a_request_that_expired_while_nobody_ran_cannot_be_decided():
    checkpointer = InMemoryCheckpointer()
    runner, _ = runner_for(gate(expires_in=0.2), suspension_mode=SuspensionMode.YIELD)
    result = await runner.run(checkpointer=checkpointer, thread_id="t")
    await asyncio.sleep(0.25)
    with pytest.raises(RequestDecidedError, match="expired"):
        record_decision(checkpointer, "t", result.requests[0], approved=True)
    assert await runner_for(gate())[0].run(checkpointer=checkpointer, thread_id="t") == Status.FAILURE


async def test_an_interrupted_leaf_takes_its_request_with_it():
    from py_trees.decorators import Timeout

    runner, sink = runner_for(Timeout("limit", gate(), duration=0.03))
    assert await runner.run() == Status.FAILURE
    assert runner.pending_requests == ()
    assert [event.payload["decision"] for event in sink.of_type("approval.decided")] == ["cancelled"]


async def test_yield_without_a_checkpointer_goes_on_in_the_same_runner():
    runner, _ = runner_for(Sequence("root", True, [gate()]), suspension_mode=SuspensionMode.YIELD)
    result = await runner.run()
    assert result.suspended
    runner.approve(result.requests[0])
    assert await runner.run() == Status.SUCCESS
