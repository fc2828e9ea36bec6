"""Node identity, changed trees, and nodes that need more than their attributes (R9, R24, R27)."""

import asyncio
import operator
import threading
import warnings
from typing import Any

import orjson
import pytest
from py_trees import behaviours, decorators
from py_trees.behaviour import Behaviour
from py_trees.blackboard import Blackboard
from py_trees.common import Access, ComparisonExpression, Status
from py_trees.composites import Selector, Sequence
from py_trees.idioms import either_or
from py_trees.timers import Timer
from pydantic import BaseModel

from jianmu import ReactiveRunner, StateManager
from jianmu.behaviours import AsyncBehaviour
from jianmu.errors import CheckpointVersionError, InvalidTreeError, SerializationError, TreeChangedError
from jianmu.memory import InMemoryCheckpointer
from jianmu.runtime import RestorabilityWarning, RestorePolicy, register_codec, verify_restorable
from jianmu.runtime.restore import TreeRecorder, TreeRestorer, node_paths, structure_digest
from jianmu.testing import fake_clock


class State(BaseModel):
    x: int = 0


def snapshot(tree: Behaviour, ticks: int = 1, recorder: TreeRecorder | None = None) -> list[Any]:
    recorder = recorder or TreeRecorder(tree)
    for _ in range(ticks):
        tree.tick_once()
    return orjson.loads(orjson.dumps(list(recorder.snapshot())))


def restore(tree: Behaviour, stored: list[Any], policy: RestorePolicy = RestorePolicy.AUTO):
    restorer = TreeRestorer(TreeRecorder(tree), policy, stored[1])
    restorer.restore_statuses(stored[0])
    restorer.repair_pointers()
    return restorer.finish()


def test_tree_state_is_a_flat_map_from_stable_path_to_status_name():
    """R9."""
    tree = Sequence("root", True, [behaviours.Success("a"), behaviours.Running("b")])
    statuses, _ = snapshot(tree)
    assert statuses == {"root": "RUNNING", "root/a": "SUCCESS", "root/b": "RUNNING"}


def test_paths_tell_every_node_apart_whatever_its_name():
    """R9: escapes, ordinals, explicit ids."""
    names = ["a/b", "a", "a", "a#2", "%", "步", "\n", "@x", ""]
    tree = Sequence("root", True, [behaviours.Success(name) for name in names])
    tree.children[1].node_id = "mine"
    assert list(node_paths(tree)) == [
        "root", "root/a%2Fb", "@mine", "root/a#2", "root/a%232", "root/%25", "root/步", "root/%0A", "root/%40x",
        "root/",
    ]  # fmt: skip


def test_two_nodes_with_one_id_are_refused():
    tree = Sequence("root", True, [behaviours.Success("a"), behaviours.Success("b")])
    for child in tree.children:
        child.node_id = "same"
    with pytest.raises(InvalidTreeError, match=r"'@same': 'a' and 'b'"):
        node_paths(tree)


def test_the_digest_sees_settings_and_classes():
    def digest(memory: bool, kind: type[Behaviour]) -> str:
        return structure_digest(node_paths(Sequence("root", memory, [kind("a")])))

    digests = {digest(m, k) for m in (True, False) for k in (behaviours.Success, behaviours.Failure)}
    assert len(digests) == 4
    assert digest(True, behaviours.Success) in digests


def test_a_node_with_an_id_survives_being_renamed_and_moved():
    """R27."""

    class Work(behaviours.TickCounter):
        node_id = "work"

    old = Sequence("root", True, [Work("old name", 3, Status.SUCCESS)])
    stored = snapshot(old, 2)
    work = Work("new name", 3, Status.SUCCESS)
    new = Sequence("root", True, [behaviours.Success("first"), Selector("group", True, [work])])
    report = restore(new, stored)
    assert "@work" in report.restored
    assert (work.status, work.counter) == (Status.INVALID, 2), "its parent is new, so it starts again"


def test_strict_names_the_difference_and_auto_reports_it():
    """R27."""
    stored = snapshot(Sequence("root", True, [behaviours.Success("a"), behaviours.Running("b")]))
    changed = Sequence("root", True, [behaviours.Success("a"), behaviours.Running("c")])
    with pytest.raises(TreeChangedError) as caught:
        restore(changed, stored, RestorePolicy.STRICT)
    assert caught.value.difference == ["+ root/c", "- root/b"]
    report = restore(changed, stored)
    assert (report.new, report.dropped, report.exact) == (("root/c",), ("root/b",), False)
    assert changed.status == Status.INVALID, "a composite whose running child is gone starts again"
    with pytest.raises(TreeChangedError, match="other settings"):
        restore(
            Sequence("root", False, [behaviours.Success("a"), behaviours.Running("b")]), stored, RestorePolicy.STRICT
        )


def test_a_blackboard_variable_that_the_saved_tree_did_not_know_is_left_alone():
    """R27: what a new node has set up stays."""
    Blackboard.clear()
    stored = snapshot(behaviours.SetBlackboardVariable("set", "alpha", 1, overwrite=True))
    Blackboard.clear()
    changed = behaviours.CheckBlackboardVariableExists("look", "beta")
    Blackboard.storage["/beta"] = 2
    restore(changed, stored)
    assert Blackboard.storage["/beta"] == 2
    Blackboard.clear()


def test_a_blackboard_variable_that_was_not_set_is_not_set_after_a_restore():
    Blackboard.clear()
    stored = snapshot(behaviours.CheckBlackboardVariableExists("look", "alpha"))
    Blackboard.storage["/alpha"] = "of another run"
    fresh = behaviours.CheckBlackboardVariableExists("look", "alpha")
    restore(fresh, stored)
    assert "/alpha" not in Blackboard.storage
    Blackboard.clear()


def test_a_node_of_another_class_starts_afresh():
    stored = snapshot(Sequence("root", True, [behaviours.Success("a"), behaviours.Running("b")]))
    report = restore(Sequence("root", True, [behaviours.Success("a"), behaviours.Dummy("b")]), stored)
    assert report.new == ("root/b",)


def test_a_tree_of_a_newer_format_is_refused():
    stored = snapshot(behaviours.Running("a"))
    stored[1]["format"] = 99
    with pytest.raises(CheckpointVersionError, match="format 99"):
        restore(behaviours.Running("a"), stored)


def test_corrupt_statuses_are_stopped_and_reported():
    tree = Sequence("root", True, [behaviours.Running("a"), behaviours.Running("b")])
    report = restore(tree, [{"root": "RUNNING", "root/a": "RUNNING", "root/b": "RUNNING"}, None])
    assert report.invalidated == ("root", "root/a", "root/b")
    report = restore(tree, [{"root": "SUCCESS", "root/a": "RUNNING", "root/b": "INVALID"}, None])
    assert report.invalidated == ("root/a",)


def test_down_time_counts_for_a_timer_and_not_for_a_timeout():
    with fake_clock() as clock:
        timer, limit = Timer("t", duration=10.0), decorators.Timeout("l", behaviours.Running("r"), duration=10.0)
        stored = [snapshot(timer), snapshot(limit)]
        clock.seconds += 1000.0
        clock.booted = clock.seconds
        timer, limit = Timer("t", duration=10.0), decorators.Timeout("l", behaviours.Running("r"), duration=10.0)
        restore(timer, stored[0])
        restore(limit, stored[1])
        timer.tick_once()
        limit.tick_once()
        assert (timer.status, limit.status) == (Status.SUCCESS, Status.RUNNING)
        clock.seconds += 10.5
        limit.tick_once()
        assert limit.status == Status.FAILURE


def test_a_longer_time_limit_in_the_code_is_not_overwritten():
    stored = snapshot(decorators.Timeout("l", behaviours.Running("r"), duration=1.0))
    longer = decorators.Timeout("l", behaviours.Running("r"), duration=9.0)
    restore(longer, stored)
    assert longer.duration == 9.0


def test_a_generator_can_not_be_resumed_and_says_so():
    Blackboard.clear()
    node = decorators.ForEach("each", behaviours.Running("r"), "items", "item")
    client = node.attach_blackboard_client("source")
    client.register_key("items", Access.WRITE)
    client.set("items", (number for number in range(3)))
    with pytest.raises(SerializationError, match="put a list on the blackboard"):
        snapshot(node)
    Blackboard.clear()


class Hooked(Behaviour):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.stream = iter([1, 2, 3])
        self.seen = 0

    def update(self) -> Status:
        self.seen = next(self.stream)
        return Status.RUNNING

    def dump_node_state(self) -> Any:
        return {"seen": self.seen, "pair": (1, 2)}

    def load_node_state(self, saved: Any) -> None:
        assert saved["pair"] == (1, 2)
        self.seen = saved["seen"]
        self.stream = iter(range(self.seen + 1, 9))


def test_a_node_may_keep_its_state_itself():
    stored = snapshot(Hooked("h"), 2)
    node = Hooked("h")
    assert restore(node, stored).exact
    node.tick_once()
    assert node.seen == 3
    assert verify_restorable(node) == []


def test_a_codec_speaks_for_a_class():
    class Special(Behaviour):
        hidden: Any = None

        def update(self) -> Status:
            self.hidden = threading.Lock() if self.hidden is None else self.hidden
            return Status.RUNNING

    class SpecialCodec:
        skips = frozenset({"hidden"})

        def dump(self, node: Special) -> Any:
            return {"had": node.hidden is not None}

        def load(self, node: Special, data: Any) -> None:
            node.hidden = "had one" if data["had"] else None

    register_codec(Special, SpecialCodec())
    stored = snapshot(Special("s"))
    node = Special("s")
    assert restore(node, stored).exact
    assert node.hidden == "had one"


def test_what_was_replaced_by_something_that_is_no_data_is_reported():
    class Opaque(Behaviour):
        thing: Any = None

        def update(self) -> Status:
            self.thing = object()
            return Status.RUNNING

    report = restore(Opaque("o"), snapshot(Opaque("o")))
    assert report.warnings == ("o.thing was no data and could not be kept",)
    assert not report.exact


def test_a_leaf_with_on_resume_goes_on_and_others_start_again():
    class Resumable(AsyncBehaviour):
        resumed: Any = None
        progress = 0

        def on_resume(self, saved: Any) -> None:
            self.resumed = saved

    tree = Selector("root", True, [Resumable("a")])
    node = tree.children[0]
    report = restore(
        tree,
        [
            {"root": "RUNNING", "root/a": "RUNNING"},
            {"format": 1, "nodes": {"root/a": {"attributes": {"progress": 7}}}},
        ],
    )
    assert (node.status, node.resumed, node.progress) == (Status.RUNNING, {"progress": 7}, 7)
    assert report.restarted == ()
    plain = Selector("root", True, [AsyncBehaviour("a")])
    assert restore(plain, [{"root": "RUNNING", "root/a": "RUNNING"}, None]).restarted == ("root/a",)
    assert (plain.status, plain.current_child, plain.children[0].status) == (
        Status.RUNNING, plain.children[0], Status.INVALID,
    )  # fmt: skip


class Secretive(Behaviour):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.numbers = (number for number in range(9))

    def update(self) -> Status:
        return Status.SUCCESS


def test_nodes_whose_state_can_not_be_kept_are_named():
    Blackboard.clear()
    tree = Sequence(
        "root",
        True,
        [
            behaviours.ProbabilisticBehaviour("dice"),
            Secretive("secret"),
            behaviours.Success("plain"),
        ],
    )
    assert [(problem.path, problem.reason.split(";")[0]) for problem in verify_restorable(tree)] == [
        ("root/dice", "draws its status at random"),
        ("root/secret", "attribute 'numbers' holds an iterator, whose position is lost"),
    ]


def test_a_random_blackboard_key_is_named():
    """The either_or idiom draws a namespace of its own unless it is given one."""
    checks = [ComparisonExpression(name, 1, operator.eq) for name in ("a", "b")]

    def tree(**options: Any) -> Behaviour:
        return either_or(checks, [behaviours.Success("x"), behaviours.Success("y")], **options)

    assert {problem.path.split("/")[-1] for problem in verify_restorable(tree())} == {"XOR", "Enabled?"}
    assert all("drawn at random" in problem.reason for problem in verify_restorable(tree()))
    assert verify_restorable(tree(namespace="choice")) == []


async def test_the_runner_warns_once_of_what_can_not_be_kept():
    runner = ReactiveRunner(Secretive("secret"), StateManager(State))
    with pytest.warns(RestorabilityWarning, match="secret: attribute 'numbers'"):
        await runner.run(checkpointer=InMemoryCheckpointer(), thread_id="t")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await runner.run(checkpointer=InMemoryCheckpointer(), thread_id="t")


async def test_the_report_reaches_the_result_and_the_event():
    """R27: restored, new, dropped in RunResult and in checkpoint.restored."""
    from jianmu import RuntimeEventBus
    from jianmu.events import ListSink

    class Hang(AsyncBehaviour):
        async def run(self) -> Status:
            await asyncio.sleep(3600)
            return Status.SUCCESS

    checkpointer = InMemoryCheckpointer()
    runner = ReactiveRunner(Sequence("root", True, [behaviours.Success("a"), Hang("b")]), StateManager(State))
    task = asyncio.create_task(runner.run(checkpointer=checkpointer, thread_id="t"))
    while runner.total_tick_count < 1:
        await asyncio.sleep(0)
    runner.stop()
    await task
    bus, sink = RuntimeEventBus(), ListSink()
    bus.attach(sink)
    tree = Sequence("root", True, [behaviours.Success("a"), behaviours.Success("new")])
    result = await ReactiveRunner(tree, StateManager(State), events=bus).run(checkpointer=checkpointer, thread_id="t")
    assert result.report is not None
    assert (result.report.new, result.report.dropped) == (("root/new",), ("root/b",))
    payload = sink.of_type("checkpoint.restored")[0].payload
    assert (payload["new"], payload["dropped"]) == (("root/new",), ("root/b",))
    with pytest.raises(TreeChangedError):
        await ReactiveRunner(Sequence("root", True, [behaviours.Success("z")]), StateManager(State)).run(
            checkpointer=checkpointer, thread_id="t", restore_policy=RestorePolicy.STRICT
        )
