"""Random trees of everything py_trees ships, and a precise record of how they tick.

`recipes` is a Hypothesis strategy; `random_recipe` draws the same trees from a `random.Random`. A recipe is plain data,
so that one recipe builds the same tree as often as needed.
"""

from __future__ import annotations

import operator
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import py_trees
from py_trees import behaviours, decorators
from py_trees.behaviour import Behaviour
from py_trees.blackboard import Blackboard
from py_trees.common import Access, ComparisonExpression, OneShotPolicy, ParallelPolicy, Status
from py_trees.composites import Parallel, Selector, Sequence

from jianmu._extras import extra
from jianmu.runtime.restore import codecs, node_paths

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Generator
    from collections.abc import Sequence as Items

    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")
Recipe: TypeAlias = tuple[Any, ...]

_ENDS = (Status.SUCCESS, Status.FAILURE)
_KEYS = ("alpha", "beta")


class Chooser(Protocol):
    """Makes the choices of which a recipe consists."""

    def choice(self, options: Items[T]) -> T:
        """Return one of the options."""
        ...


class Tally(Behaviour):
    """A leaf of a user's own: counts its visits in several kinds of attributes, runs ``length`` ticks, then ends."""

    def __init__(self, name: str, length: int, end: Status) -> None:
        super().__init__(name)
        self.length = length
        self.end = end
        self.left = 0
        self.visits = 0
        self.history: list[int] = []
        self.seen: dict[int, tuple[int, ...]] = {}

    def initialise(self) -> None:
        """Begin to count down."""
        self.left = self.length

    def update(self) -> Status:
        """Count one visit."""
        self.visits += 1
        self.history.append(self.visits)
        self.seen[self.visits % 3] = (self.visits, self.left)
        self.left -= 1
        return Status.RUNNING if self.left > 0 else self.end


# -- recipes ---------------------------------------------------------------------------------------------------------


def random_recipe(rng: random.Random, depth: int = 3) -> Recipe:
    """Draw a recipe.

    Args:
        rng: the source of chance.
        depth: levels below the root at most.
    """
    return _draw_node(_RandomChooser(rng), depth)


def recipes(depth: int = 3) -> SearchStrategy[Recipe]:
    """Return a Hypothesis strategy of recipes.

    Args:
        depth: levels below the root at most.
    """
    with extra("testing"):
        from hypothesis import strategies as st

    @st.composite
    def drawn(draw: Callable[..., Any]) -> Recipe:
        return _draw_node(_DrawingChooser(draw, st.sampled_from), depth)

    return drawn()


def build(recipe: Recipe) -> Behaviour:
    """Build a tree; every call gives a new one of the same shape."""
    kind, settings, children = recipe
    if kind in _LEAVES:
        return _LEAVES[kind](settings)
    return (_COMPOSITES | _DECORATORS)[kind](settings, [build(child) for child in children])


@dataclass
class _RandomChooser:
    rng: random.Random

    def choice(self, options: Items[T]) -> T:
        return self.rng.choice(options)


@dataclass
class _DrawingChooser:
    draw: Callable[..., Any]
    sampled_from: Callable[..., Any]

    def choice(self, options: Items[T]) -> T:
        return self.draw(self.sampled_from(options))


def _draw_node(chooser: Chooser, depth: int) -> Recipe:
    family = chooser.choice(("leaf", "composite", "composite", "decorator")) if depth else "leaf"
    if family == "leaf":
        return (chooser.choice(tuple(_LEAVES)), _draw_settings(chooser), ())
    if family == "decorator":
        return (chooser.choice(tuple(_DECORATORS)), _draw_settings(chooser), (_draw_node(chooser, depth - 1),))
    children = tuple(_draw_node(chooser, depth - 1) for _ in range(chooser.choice((1, 2, 2, 3))))
    return (chooser.choice(tuple(_COMPOSITES)), _draw_settings(chooser), children)


def _draw_settings(chooser: Chooser) -> dict[str, Any]:
    return {
        "n": chooser.choice((1, 2, 3)),
        "flag": chooser.choice((True, False)),
        "end": chooser.choice(_ENDS),
        "status": chooser.choice((*_ENDS, Status.RUNNING)),
        "queue": chooser.choice(
            ((Status.RUNNING, Status.SUCCESS), (Status.FAILURE, Status.RUNNING, Status.SUCCESS), (Status.RUNNING,))
        ),
        "key": chooser.choice(_KEYS),
        "name": chooser.choice(("node", "step/1", "步")),
    }


_Maker: TypeAlias = "Callable[[dict[str, Any], list[Behaviour]], Behaviour]"


def _parallel(s: dict[str, Any], children: list[Behaviour]) -> Behaviour:
    policies: list[Any] = [
        ParallelPolicy.SuccessOnAll(synchronise=s["flag"]),
        ParallelPolicy.SuccessOnOne(),
        ParallelPolicy.SuccessOnSelected(children=children[:1], synchronise=s["flag"]),
    ]
    return Parallel(s["name"], policies[s["n"] - 1], children)


def _for_each(s: dict[str, Any], children: list[Behaviour]) -> Behaviour:
    node = decorators.ForEach(s["name"], children[0], "items", "item")
    client = node.attach_blackboard_client("source")
    client.register_key("items", Access.WRITE)
    client.set("items", ["a", "b", "c"][: s["n"]])
    return node


def _exists_is(key: str, wanted: bool) -> Callable[[Any], bool]:
    return lambda blackboard: blackboard.exists(key) is wanted


def _compared(s: dict[str, Any]) -> ComparisonExpression:
    return ComparisonExpression(s["key"], s["n"], operator.ge)


_LEAVES: dict[str, Callable[[dict[str, Any]], Behaviour]] = {
    "Success": lambda s: behaviours.Success(s["name"]),
    "Failure": lambda s: behaviours.Failure(s["name"]),
    "Running": lambda s: behaviours.Running(s["name"]),
    "Dummy": lambda s: behaviours.Dummy(s["name"]),
    "Periodic": lambda s: behaviours.Periodic(s["name"], s["n"]),
    "StatusQueue": lambda s: behaviours.StatusQueue(s["name"], list(s["queue"]), s["status"] if s["flag"] else None),
    "SuccessEveryN": lambda s: behaviours.SuccessEveryN(s["name"], s["n"]),
    "TickCounter": lambda s: behaviours.TickCounter(s["name"], s["n"], s["end"]),
    "Tally": lambda s: Tally(s["name"], s["n"], s["end"]),
    "Timer": lambda s: py_trees.timers.Timer(s["name"], duration=float(s["n"])),
    "SetVariable": lambda s: behaviours.SetBlackboardVariable(s["name"], s["key"], s["n"], s["flag"]),
    "UnsetVariable": lambda s: behaviours.UnsetBlackboardVariable(s["name"], s["key"]),
    "VariableExists": lambda s: behaviours.CheckBlackboardVariableExists(s["name"], s["key"]),
    "WaitForVariable": lambda s: behaviours.WaitForBlackboardVariable(s["name"], s["key"]),
    "VariableValue": lambda s: behaviours.CheckBlackboardVariableValue(s["name"], _compared(s)),
    "WaitForValue": lambda s: behaviours.WaitForBlackboardVariableValue(s["name"], _compared(s)),
}
_COMPOSITES: dict[str, _Maker] = {
    "Sequence": lambda s, c: Sequence(s["name"], s["flag"], c),
    "Selector": lambda s, c: Selector(s["name"], s["flag"], c),
    "Parallel": _parallel,
}
_DECORATORS: dict[str, _Maker] = {
    "Inverter": lambda s, c: decorators.Inverter(s["name"], c[0]),
    "Repeat": lambda s, c: decorators.Repeat(s["name"], c[0], num_success=s["n"]),
    "Retry": lambda s, c: decorators.Retry(s["name"], c[0], num_failures=s["n"]),
    "Timeout": lambda s, c: decorators.Timeout(s["name"], c[0], duration=float(s["n"]) + 0.5),
    "OneShot": lambda s, c: decorators.OneShot(
        s["name"], c[0], OneShotPolicy.ON_COMPLETION if s["flag"] else OneShotPolicy.ON_SUCCESSFUL_COMPLETION
    ),
    "Count": lambda s, c: decorators.Count(s["name"], c[0]),
    "RunningIsFailure": lambda s, c: decorators.RunningIsFailure(s["name"], c[0]),
    "RunningIsSuccess": lambda s, c: decorators.RunningIsSuccess(s["name"], c[0]),
    "FailureIsSuccess": lambda s, c: decorators.FailureIsSuccess(s["name"], c[0]),
    "FailureIsRunning": lambda s, c: decorators.FailureIsRunning(s["name"], c[0]),
    "SuccessIsFailure": lambda s, c: decorators.SuccessIsFailure(s["name"], c[0]),
    "SuccessIsRunning": lambda s, c: decorators.SuccessIsRunning(s["name"], c[0]),
    "Condition": lambda s, c: decorators.Condition(s["name"], c[0], s["status"]),
    "PassThrough": lambda s, c: decorators.PassThrough(s["name"], c[0]),
    "StatusToBlackboard": lambda s, c: decorators.StatusToBlackboard(
        name=s["name"], child=c[0], variable_name="status"
    ),
    "EternalGuard": lambda s, c: decorators.EternalGuard(
        name=s["name"],
        child=c[0],
        condition=_exists_is(s["key"], s["flag"]),
        blackboard_keys={s["key"]},
    ),
}
if hasattr(decorators, "ForEach"):
    _DECORATORS["ForEach"] = _for_each


# -- ticking ---------------------------------------------------------------------------------------------------------


class TracedTree:
    """A tree that records what each tick does.

    Args:
        recipe: what to build.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.root = build(recipe)
        self._calls: list[str] = []
        self._paths = node_paths(self.root)
        for path, node in self._paths.items():
            for method in ("initialise", "update", "terminate"):
                self._trace(node, path, method)
        for node in self._paths.values():
            node.setup()

    def tick(self) -> Any:
        """Tick once.

        Returns:
            What happened: nodes visited, methods called, every status, and the tip. Comparable with ``==``.
        """
        self._calls.clear()
        names = {id(node): path for path, node in self._paths.items()}
        visited = [names[id(node)] for node in self.root.tick()]
        tip = self.root.tip()
        statuses = {path: node.status.name for path, node in self._paths.items()}
        return visited, list(self._calls), statuses, None if tip is None else names[id(tip)]

    def _trace(self, node: Behaviour, path: str, method: str) -> None:
        original = getattr(node, method)

        def traced(*args: Any) -> Any:
            self._calls.append(f"{path}.{method}{[arg.name for arg in args]}")
            return original(*args)

        setattr(node, method, traced)


class FakeClock:
    """Stands in for the module ``time`` inside py_trees: it moves only when told to."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0
        self.booted = 0.0

    def time(self) -> float:
        """Return the wall clock, which goes on while no process runs."""
        return self.seconds

    def monotonic(self) -> float:
        """Return the monotonic clock, which begins anew with each boot."""
        return self.seconds - self.booted


@contextmanager
def fake_clock() -> Generator[FakeClock]:
    """Let py_trees' timers and timeouts, and their restore, run on a clock of the test's."""
    clock = FakeClock()
    modules: list[Any] = [decorators, py_trees.timers, codecs]
    for module in modules:
        module.time = clock
    try:
        yield clock
    finally:
        for module in modules:
            module.time = time


def forget_blackboard() -> None:
    """Empty the blackboard, as a new process would find it."""
    Blackboard.clear()
