"""When to tick again: a pure look at the tree, and a flag that any thread may raise."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from py_trees.common import Status
from py_trees.decorators import Timeout
from py_trees.timers import Timer

from jianmu.behaviours import AsyncBehaviour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from py_trees.behaviour import Behaviour

_INSTANT = 1e-4  # seconds; shorter than setting up a timer takes
_PAST_DEADLINE = 0.001  # py_trees compares with ">", so a tick exactly at the deadline would come too early


@dataclass
class WaitPlan:
    """What a tree that is RUNNING waits for.

    Attributes:
        ticks_itself: nodes that made themselves RUNNING and want the next tick at once.
        polls: plain leaves that can only be looked at again.
        awaits: leaves whose task wakes the tree.
        deadlines: node and seconds from now until it is due.
    """

    ticks_itself: list[Behaviour] = field(default_factory=list["Behaviour"])
    polls: list[Behaviour] = field(default_factory=list["Behaviour"])
    awaits: list[Behaviour] = field(default_factory=list["Behaviour"])
    deadlines: list[tuple[Behaviour, float]] = field(default_factory=list[tuple["Behaviour", float]])

    def timeout(self, idle_interval: float) -> float | None:
        """Return for how many seconds the tree may sleep; None for as long as nothing wakes it."""
        if self.ticks_itself:
            return 0.0
        spans = [span for _, span in self.deadlines]
        if self.polls:
            spans.append(idle_interval)
        return max(0.0, min(spans)) if spans else None

    def moves_by_itself(self) -> bool:
        """Whether something other than a task will move the tree on; a mere time limit does not."""
        return bool(self.ticks_itself or self.polls or any(isinstance(node, Timer) for node, _ in self.deadlines))

    def describe(self) -> list[str]:
        """Say in words what is waited for."""
        return [
            *(f"{node.name!r} ticks itself" for node in self.ticks_itself),
            *(f"{node.name!r} is a plain leaf and is looked at again" for node in self.polls),
            *(f"{node.name!r} waits for its task" for node in self.awaits),
            *(f"{node.name!r} is due in {span:.3f} s" for node, span in self.deadlines),
        ]


def wait_plan(nodes: Sequence[Behaviour]) -> WaitPlan:
    """Find out what a tree waits for.

    Args:
        nodes: all nodes of a tree whose root is RUNNING.
    """
    plan = WaitPlan()
    for node in nodes:
        if node.status is Status.RUNNING:
            _classify(node, plan)
    return plan


def _classify(node: Behaviour, plan: WaitPlan) -> None:
    if isinstance(node, Timer):
        plan.deadlines.append((node, node.finish_time - time.time() + _PAST_DEADLINE))
    elif not node.children:
        waits = isinstance(node, AsyncBehaviour) and node.work_dies_with_process
        (plan.awaits if waits or getattr(node, "wakes_itself", False) else plan.polls).append(node)
    elif not any(child.status == Status.RUNNING for child in node.children):
        plan.ticks_itself.append(node)
    elif isinstance(node, Timeout):
        plan.deadlines.append((node, node.finish_time - time.monotonic() + _PAST_DEADLINE))


class WakeFlag:
    """A sticky flag: many wakes make one tick, and a wake before anybody waits is not lost."""

    def __init__(self) -> None:
        self._raised = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event: asyncio.Event | None = None

    @property
    def raised(self) -> bool:
        """Whether a wake has come that no tick has answered yet."""
        return self._raised

    def attach(self) -> None:
        """Bind the flag to the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        if self._raised:
            self._event.set()

    def wake(self) -> None:
        """Raise the flag; from any thread."""
        self._raised = True
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(self._signal)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    def _signal(self) -> None:
        if self._raised and self._event is not None:  # else a tick has answered meanwhile
            self._event.set()

    def clear(self) -> None:
        """Lower the flag, just before a tick."""
        self._raised = False
        if self._event is not None:
            self._event.clear()

    async def wait(self, timeout: float | None) -> None:
        """Sleep until the flag is raised or the time is over.

        Args:
            timeout: seconds; None for no limit.
        """
        assert self._event is not None
        if self._raised or (timeout is not None and timeout < _INSTANT):
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return


class StallWatch:
    """Notices a tree that goes round in circles.

    Args:
        limit: how often the same statuses may be seen while the state stays the same.
    """

    def __init__(self, limit: int = 200) -> None:
        self._limit = limit
        self._revision = -1
        self._seen: dict[tuple[int, ...], int] = {}

    def note(self, statuses: tuple[Status, ...], revision: int) -> bool:
        """Note one tick.

        Args:
            statuses: every node's status.
            revision: a number that grows with each change of the state.

        Returns:
            True when the limit is reached; only once until the state changes.
        """
        if revision != self._revision:
            self._revision = revision
            self._seen.clear()
        fingerprint = tuple(map(id, statuses))  # a Status is a single object; hashing it by name is slow
        count = self._seen.get(fingerprint, 0) + 1
        self._seen[fingerprint] = count
        return count == self._limit
