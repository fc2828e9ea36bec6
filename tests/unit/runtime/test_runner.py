"""The runner's life cycle (R20..R29, R48)."""

import asyncio
import threading
import time
from typing import Annotated, Any

import pytest
from py_trees.behaviour import Behaviour
from py_trees.common import ParallelPolicy, Status
from py_trees.composites import Parallel, Selector, Sequence
from py_trees.decorators import FailureIsSuccess, Timeout
from py_trees.timers import Timer
from py_trees.trees import BehaviourTree
from pydantic import BaseModel

from jianmu import ReactiveRunner, RuntimeEventBus, StateManager
from jianmu.behaviours import AsyncBehaviour, FunctionBehaviour, LoopUntilSuccess
from jianmu.config import RuntimeCheckpointConfig
from jianmu.errors import (
    CheckpointNotFoundError,
    CheckpointSaveError,
    CheckpointVersionError,
    ConfigurationError,
    InvalidTreeError,
    LeafError,
    ReducerError,
    ThreadLockedError,
    TreeInUseError,
    UnknownFieldError,
)
from jianmu.events import ListSink
from jianmu.memory import FileCheckpointer, InMemoryCheckpointer
from jianmu.runtime import LeafErrorPolicy, RestorePolicy
from jianmu.state import append


class State(BaseModel):
    lines: Annotated[list[str], append] = []
    count: int = 0


class Write(AsyncBehaviour):
    """Waits ``turns`` times, then writes its name."""

    def __init__(self, name: str, turns: int = 1, status: Status = Status.SUCCESS) -> None:
        super().__init__(name)
        self.turns = turns
        self.outcome = status

    async def run(self) -> Status:
        for _ in range(self.turns):
            await asyncio.sleep(0)
        self.state.update(lines=self.name)
        return self.outcome


class Stuck(AsyncBehaviour):
    """Waits until it is told to go on."""

    def __init__(self, name: str = "stuck") -> None:
        super().__init__(name)
        self.started = asyncio.Event()
        self.cancelled = False

    async def run(self) -> Status:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return Status.SUCCESS


def make(root: Behaviour | BehaviourTree, **options: Any) -> tuple[ReactiveRunner, ListSink]:
    bus, sink = RuntimeEventBus(), ListSink()
    bus.attach(sink)
    return ReactiveRunner(root=root, state_manager=StateManager(State), events=bus, **options), sink


def chain(*names: str) -> Sequence:
    return Sequence("root", memory=True, children=[Write(name) for name in names])


async def reached(event: asyncio.Event, task: asyncio.Task[Any]) -> None:
    """Wait for an event, or for the task that should bring it about to fail."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait([waiting, task], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        task.result()


async def interrupted(checkpointer: Any, tree: Behaviour, stuck: Stuck, thread_id: str = "t") -> ReactiveRunner:
    """Run a tree until a leaf is stuck, then cancel the run, as a crash would leave it."""
    runner, _ = make(tree)
    task = asyncio.create_task(runner.run(checkpointer=checkpointer, thread_id=thread_id))
    await reached(stuck.started, task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return runner


async def test_a_run_ticks_to_the_end_and_its_result_equals_the_status():
    """R21, R28: run returns a result that compares equal to its Status."""
    runner, _ = make(chain("a", "b"))
    result = await runner.run()
    assert result == Status.SUCCESS
    assert result != Status.FAILURE
    assert runner.state_manager.get("lines") == ["a", "b"]
    assert result.step == runner.total_tick_count > 0


async def test_a_py_trees_behaviour_tree_is_accepted_as_root():
    runner, _ = make(BehaviourTree(chain("a")))
    assert await runner.run() == Status.SUCCESS


async def test_every_tick_is_saved_by_default_and_told():
    """R23, R29: interval 1 saves each tick; checkpoint.saved has thread_id, step, forced."""
    runner, sink = make(chain("a", "b", "c"))
    result = await runner.run(checkpointer=InMemoryCheckpointer(), thread_id="t")
    saved = [event.payload for event in sink.of_type("checkpoint.saved")]
    assert saved == [{"thread_id": "t", "step": step, "forced": False} for step in range(1, result.step + 1)]


async def test_an_interval_saves_every_so_many_ticks_and_the_last_one():
    """R23: total_tick_count % interval == 0, and the end is never lost."""
    runner, sink = make(chain("a", "b", "c", "d"))
    result = await runner.run(checkpointer=InMemoryCheckpointer(), thread_id="t", checkpoint_interval=2)
    saved = [(event.payload["step"], event.payload["forced"]) for event in sink.of_type("checkpoint.saved")]
    periodic = [(step, False) for step in range(2, result.step + 1, 2)]
    assert saved == (periodic if result.step % 2 == 0 else [*periodic, (result.step, True)])


async def test_a_second_runner_resumes_where_the_first_was():
    """R7, R8, R22, R24: state, tree and step go on; finished leaves are not run again."""
    checkpointer, stuck = InMemoryCheckpointer(), Stuck()
    first = await interrupted(checkpointer, Sequence("root", True, [Write("a"), stuck, Write("b")]), stuck)
    runner, sink = make(Sequence("root", True, [Write("a"), Write("stuck"), Write("b")]))
    result = await runner.run(checkpointer=checkpointer, thread_id="t", restore_policy=RestorePolicy.AUTO)
    assert result == Status.SUCCESS
    assert runner.state_manager.get("lines")[0] == "a"
    assert runner.state_manager.get("lines").count("a") == 1
    assert result.step > first.total_tick_count
    restored = sink.of_type("checkpoint.restored")[0].payload
    assert (restored["thread_id"], restored["has_state"], restored["has_tree_state"]) == ("t", True, True)


async def test_restoring_follows_the_order_of_the_life_cycle(monkeypatch):
    """R22: initialize, restore_runtime_metadata, _restore_tree_status, _repair_running_composite_pointers, event."""
    checkpointer, stuck = InMemoryCheckpointer(), Stuck()
    await interrupted(checkpointer, Sequence("root", True, [Write("a"), stuck]), stuck)
    runner, sink = make(Sequence("root", True, [Write("a"), Write("stuck")]))
    calls: list[str] = []

    def spy(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def noted(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, noted)

    spy(runner.state_manager, "initialize")
    spy(runner.state_manager, "restore_runtime_metadata")
    spy(runner, "_restore_tree_status")
    spy(runner, "_repair_running_composite_pointers")
    await runner.run(checkpointer=checkpointer, thread_id="t")
    assert calls == [
        "initialize",
        "restore_runtime_metadata",
        "_restore_tree_status",
        "_repair_running_composite_pointers",
    ]
    types = [event.type for event in sink.events]
    assert types.index("checkpoint.restored") < types.index("tick.finished")


async def test_input_is_merged_through_the_reducers_after_a_restore():
    """R25: how the next chat turn arrives."""
    checkpointer, stuck = InMemoryCheckpointer(), Stuck()
    await interrupted(checkpointer, Sequence("root", True, [Write("a"), stuck]), stuck)
    runner, _ = make(Sequence("root", True, [Write("a"), Write("stuck")]))
    await runner.run({"lines": ["next"]}, checkpointer=checkpointer, thread_id="t")
    assert runner.state_manager.get("lines") == ["a", "next", "stuck"]


async def test_a_finished_thread_gives_its_status_and_ticks_nothing():
    """R26: run again without input."""
    checkpointer = InMemoryCheckpointer()
    first = await make(chain("a"))[0].run(checkpointer=checkpointer, thread_id="t")
    runner, sink = make(chain("a"))
    again = await runner.run(checkpointer=checkpointer, thread_id="t")
    assert (again.status, again.step) == (Status.SUCCESS, first.step)
    assert not sink.of_type("tick.finished")


async def test_a_finished_thread_with_input_starts_a_fresh_turn_on_the_restored_state():
    """R26: run again with input; steps go on (R8)."""
    checkpointer = InMemoryCheckpointer()
    first = await make(chain("a"))[0].run(checkpointer=checkpointer, thread_id="t")
    runner, _ = make(chain("a"))
    again = await runner.run({"lines": "more"}, checkpointer=checkpointer, thread_id="t")
    assert runner.state_manager.get("lines") == ["a", "more", "a"]
    assert again.step == first.step * 2


async def test_never_starts_afresh_and_state_only_keeps_the_state():
    """R22, R27: restore policies."""
    checkpointer = InMemoryCheckpointer()
    await make(chain("a"))[0].run(checkpointer=checkpointer, thread_id="t")
    runner, sink = make(chain("b"))
    await runner.run(checkpointer=checkpointer, thread_id="t", restore_policy=RestorePolicy.STATE_ONLY)
    assert runner.state_manager.get("lines") == ["a", "b"]
    runner, sink = make(chain("c"))
    await runner.run(checkpointer=checkpointer, thread_id="t", restore_policy=RestorePolicy.NEVER)
    assert runner.state_manager.get("lines") == ["c"]
    assert not sink.of_type("checkpoint.restored")


async def test_without_a_checkpointer_nothing_is_saved_unless_the_configuration_says_so(tmp_path):
    """R20: enabled=False is one-shot, enabled=True makes the configured backend."""
    runner, sink = make(chain("a"))
    await runner.run(thread_id="t")
    assert not sink.of_type("checkpoint.saved")
    config = RuntimeCheckpointConfig(enabled=True, directory=str(tmp_path))
    runner, sink = make(chain("a"), checkpoint_config=config)
    await runner.run(thread_id="t")
    assert sink.of_type("checkpoint.saved")
    assert FileCheckpointer(tmp_path).get_checkpoint("t")["state"]["lines"] == ["a"]


async def test_a_run_can_go_back_to_an_earlier_step():
    checkpointer = InMemoryCheckpointer()
    first = await make(chain("a", "b", "c"))[0].run(checkpointer=checkpointer, thread_id="t")
    early = next(s for s in range(1, first.step) if checkpointer.get_checkpoint_at("t", s)["state"]["lines"] == ["a"])
    runner, _ = make(chain("a", "b", "c"))
    again = await runner.run(checkpointer=checkpointer, thread_id="t", from_step=early)
    assert runner.state_manager.get("lines") == ["a", "b", "c"]
    assert again.step > early
    with pytest.raises(CheckpointNotFoundError, match="step 99"):
        await make(chain("a"))[0].run(checkpointer=checkpointer, thread_id="t", from_step=99)


async def test_a_half_done_leaf_has_written_nothing():
    """A leaf's writes and its completion become visible together."""
    checkpointer = InMemoryCheckpointer()

    class WriteThenHang(Stuck):
        async def run(self) -> Status:
            self.state.update(lines="half")
            self.state.update(count=7, immediate=True)
            return await super().run()

    leaf = WriteThenHang()
    await interrupted(checkpointer, Sequence("root", True, [Write("a"), leaf]), leaf)
    saved = checkpointer.get_checkpoint("t")["state"]
    assert saved["lines"] == ["a"]


async def test_no_task_is_left_and_the_tree_is_stopped_after_cancellation():
    """R48: own the leaf tasks on every exit."""
    stuck = Stuck()
    tree = Sequence("root", True, [stuck])
    await interrupted(None, tree, stuck)
    assert stuck.cancelled
    assert tree.status == stuck.status == Status.INVALID
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_stop_ends_the_run_after_the_tick_and_it_can_be_resumed():
    checkpointer, stuck = InMemoryCheckpointer(), Stuck()
    runner, _ = make(Sequence("root", True, [Write("a"), stuck]))
    task = asyncio.create_task(runner.run(checkpointer=checkpointer, thread_id="t"))
    await reached(stuck.started, task)
    runner.stop()
    result = await task
    assert (result.status, result.suspended) == (Status.RUNNING, False)
    resumed, _ = make(Sequence("root", True, [Write("a"), Write("stuck")]))
    assert await resumed.run(checkpointer=checkpointer, thread_id="t") == Status.SUCCESS


async def test_waiting_costs_no_ticks():
    """R48: while only async leaves wait there is no polling."""

    class Sleep(AsyncBehaviour):
        async def run(self) -> Status:
            await asyncio.sleep(0.5)
            return Status.SUCCESS

    runner, _ = make(Sleep("sleep"))
    before = time.process_time()
    result = await runner.run()
    assert result.step <= 3
    assert time.process_time() - before < 0.05


async def test_a_wake_from_another_thread_ticks_the_tree():
    """R48: wake-ups from other threads, also through a state change."""
    ready = FunctionBehaviour("ready", lambda state: Status.SUCCESS if state.get("count") else Status.RUNNING)
    runner, _ = make(ready, idle_interval=60.0)
    thread = threading.Timer(0.05, lambda: runner.state_manager.update(count=1))
    thread.start()
    assert await asyncio.wait_for(runner.run(), 5) == Status.SUCCESS
    thread.join()


async def test_plain_leaves_that_run_are_looked_at_again():
    class Countdown(Behaviour):
        left = 3

        def update(self) -> Status:
            self.left -= 1
            return Status.RUNNING if self.left else Status.SUCCESS

    runner, _ = make(Countdown("countdown"), idle_interval=0.001)
    assert (await runner.run()).step == 3


async def test_timers_and_timeouts_wake_the_tree_when_they_are_due():
    runner, _ = make(Sequence("root", True, [Timer("timer", duration=0.05)]), idle_interval=60.0)
    assert await asyncio.wait_for(runner.run(), 5) == Status.SUCCESS
    runner, _ = make(Timeout("limit", Stuck(), duration=0.05), idle_interval=60.0)
    assert await asyncio.wait_for(runner.run(), 5) == Status.FAILURE


async def test_a_loop_runs_again_until_success_and_at_most_max_rounds():
    runner, _ = make(LoopUntilSuccess("loop", FunctionBehaviour("big", lambda s: _count(s) >= 5)))
    assert await runner.run() == Status.SUCCESS
    assert runner.state_manager.get("count") == 5
    runner, _ = make(LoopUntilSuccess("loop", FunctionBehaviour("no", lambda: False), max_rounds=3))
    assert await runner.run() == Status.FAILURE
    with pytest.raises(ConfigurationError, match="at least 1"):
        LoopUntilSuccess("loop", Write("a"), max_rounds=0)


def _count(state: StateManager[State]) -> int:
    state.update(count=state.get("count") + 1)
    return state.get("count")


async def test_parallel_leaves_run_at_the_same_time():
    first, second = asyncio.Event(), asyncio.Event()

    class Meet(AsyncBehaviour):
        def __init__(self, name: str, mine: asyncio.Event, other: asyncio.Event) -> None:
            super().__init__(name)
            self.mine, self.other = mine, other

        async def run(self) -> Status:
            self.mine.set()
            await self.other.wait()
            return Status.SUCCESS

    both = [Meet("a", first, second), Meet("b", second, first)]
    runner, _ = make(Parallel("both", ParallelPolicy.SuccessOnAll(), both))
    assert await asyncio.wait_for(runner.run(), 5) == Status.SUCCESS


async def test_an_exception_in_a_leaf_is_its_failure_kept_and_told():
    def broken(state: StateManager[State]) -> bool:
        state.update(lines="never")
        raise ValueError("no luck")

    async def broken_later(state: StateManager[State]) -> bool:
        return broken(state)

    for function in (broken, broken_later):
        runner, sink = make(Selector("root", True, [FunctionBehaviour("bad", function), Write("good")]))
        result = await runner.run()
        assert result == Status.SUCCESS
        assert [(path, str(error)) for path, error in result.errors] == [("root/bad", "no luck")]
        assert sink.of_type("leaf.failed")[0].payload["path"] == "root/bad"
        assert runner.state_manager.get("lines") == ["good"]


async def test_an_exception_in_a_foreign_leaf_is_its_failure_too():
    class Foreign(Behaviour):
        def update(self) -> Status:
            raise KeyError("gone")

    runner, _ = make(FailureIsSuccess("ok", Foreign("foreign")))
    result = await runner.run()
    assert result == Status.SUCCESS
    assert result.errors[0][0] == "ok/foreign"


async def test_with_the_raise_policy_the_run_raises_and_the_broken_tick_is_not_saved():
    def broken(state: StateManager[State]) -> bool:
        raise ValueError("no luck")

    checkpointer = InMemoryCheckpointer()
    tree = Sequence("root", True, [Write("a"), FunctionBehaviour("bad", broken)])
    runner, sink = make(tree, on_leaf_error=LeafErrorPolicy.RAISE)
    with pytest.raises(LeafError, match="root/bad"):
        await runner.run(checkpointer=checkpointer, thread_id="t")
    assert checkpointer.get_checkpoint("t")["tree"]["root/bad"] == "INVALID"
    assert sink.of_type("run.failed")


class TestMisuse:
    """Each mistake has its own error."""

    async def test_one_tree_in_two_runners(self):
        stuck = Stuck()
        tree = Sequence("root", True, [stuck])
        task = asyncio.create_task(make(tree)[0].run())
        await reached(stuck.started, task)
        with pytest.raises(TreeInUseError, match="'root'"):
            await make(tree)[0].run()
        task.cancel()

    def test_a_node_without_a_state_manager(self):
        with pytest.raises(InvalidTreeError, match="'a' has no state manager"):
            Write("a").tick_once()

    async def test_an_update_of_an_unknown_field(self):
        runner, _ = make(FunctionBehaviour("bad", lambda state: state.update(nope=1)))
        result = await runner.run()
        assert isinstance(result.errors[0][1], UnknownFieldError)

    async def test_a_reducer_that_raises(self):
        def bad(old: int, new: int) -> int:
            raise ZeroDivisionError

        class Bad(BaseModel):
            total: Annotated[int, bad] = 0

        runner = ReactiveRunner(FunctionBehaviour("bad", lambda state: state.update(total=1)), StateManager(Bad))
        result = await runner.run()
        assert isinstance(result.errors[0][1], ReducerError)

    @pytest.mark.parametrize("kind", ["async", "function", "foreign"])
    async def test_a_leaf_that_returns_no_status(self, kind):
        class Nothing(Behaviour):
            def update(self) -> Any:
                return None

        class NothingLater(AsyncBehaviour):
            async def run(self) -> Any:
                return None

        leaf = {"async": NothingLater, "foreign": Nothing}.get(kind, lambda n: FunctionBehaviour(n, lambda: None))(
            "bad"
        )
        with pytest.raises(LeafError, match=r"'root/bad'.*returned None"):
            await make(Sequence("root", True, [leaf]))[0].run()

    async def test_a_checkpoint_of_a_newer_format(self):
        checkpointer = InMemoryCheckpointer()
        checkpointer.save_checkpoint("t", 1, {}, {}, {"format": 99})
        with pytest.raises(CheckpointVersionError, match=r"format 99.*upgrade"):
            await make(chain("a"))[0].run(checkpointer=checkpointer, thread_id="t")

    async def test_two_runners_on_one_thread(self):
        checkpointer, stuck = InMemoryCheckpointer(), Stuck()
        task = asyncio.create_task(make(stuck)[0].run(checkpointer=checkpointer, thread_id="t"))
        await reached(stuck.started, task)
        with pytest.raises(ThreadLockedError, match="'t'"):
            await make(chain("a"))[0].run(checkpointer=checkpointer, thread_id="t")
        task.cancel()

    async def test_arguments_that_make_no_sense(self):
        with pytest.raises(ConfigurationError, match="at least 1 tick"):
            await make(chain("a"))[0].run(checkpoint_interval=0)
        with pytest.raises(ConfigurationError, match="name the thread"):
            await make(chain("a"))[0].run(checkpointer=FileCheckpointer())
        with pytest.raises(ConfigurationError, match="idle_interval"):
            make(chain("a"), idle_interval=0)
        with pytest.raises(InvalidTreeError, match="must be a py_trees behaviour"):
            await ReactiveRunner("tree", StateManager(State)).run()


async def test_a_failed_save_is_told_and_stops_the_run_with_the_last_good_checkpoint_intact():
    """R29: a failing save emits checkpoint.failed and no saved."""

    class Full(InMemoryCheckpointer):
        def save_checkpoint(self, thread_id, step, *args, **kwargs):
            if step == 2:
                raise OSError("disk full")
            super().save_checkpoint(thread_id, step, *args, **kwargs)

    checkpointer = Full()
    runner, sink = make(chain("a", "b", "c"))
    with pytest.raises(CheckpointSaveError, match=r"step 2.*disk full"):
        await runner.run(checkpointer=checkpointer, thread_id="t")
    assert [event.payload["step"] for event in sink.of_type("checkpoint.saved")] == [1]
    assert sink.of_type("checkpoint.failed")[0].payload["step"] == 2
    assert checkpointer.get_checkpoint("t")["step"] == 1


async def test_a_failing_sink_never_breaks_a_run():
    """R29: sinks are isolated."""
    bus = RuntimeEventBus()

    class Broken(ListSink):
        def handle(self, event):
            raise RuntimeError("sink down")

    bus.attach(Broken())
    runner = ReactiveRunner(chain("a"), StateManager(State), events=bus)
    assert await runner.run() == Status.SUCCESS


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_each_durability_ends_with_everything_saved(durability):
    checkpointer = InMemoryCheckpointer()
    runner, sink = make(chain("a", "b"))
    result = await runner.run(checkpointer=checkpointer, thread_id="t", durability=durability)
    assert checkpointer.get_checkpoint("t")["state"]["lines"] == ["a", "b"]
    assert checkpointer.get_checkpoint("t")["step"] == result.step
    if durability == "exit":
        assert len(sink.of_type("checkpoint.saved")) == 1


async def test_an_exit_save_is_made_also_when_the_run_is_cancelled():
    checkpointer, stuck = InMemoryCheckpointer(), Stuck()
    runner, _ = make(Sequence("root", True, [Write("a"), stuck]))
    task = asyncio.create_task(runner.run(checkpointer=checkpointer, thread_id="t", durability="exit"))
    await reached(stuck.started, task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert checkpointer.get_checkpoint("t")["tree"]["root/stuck"] == "RUNNING"


async def test_a_tree_that_goes_round_in_circles_is_told():
    """runner.stalled names what is waited for."""
    from py_trees.decorators import SuccessIsRunning

    runner, sink = make(SuccessIsRunning("never", FunctionBehaviour("yes", lambda: True)), idle_interval=0.001)
    task = asyncio.create_task(runner.run())
    while not sink.of_type("runner.stalled"):
        await asyncio.sleep(0.001)
    assert runner.explain_wait() == ["'never' ticks itself"]
    task.cancel()
