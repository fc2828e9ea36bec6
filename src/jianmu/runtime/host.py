"""The runner as its leaves see it: their tasks, effects and requests during one run."""

from __future__ import annotations

import asyncio
import inspect
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from py_trees.common import Status

from jianmu.behaviours.host import NOT_DONE, ApprovalRequest, Decision, EffectOptions, Outcome
from jianmu.errors import EffectInDoubtError, LeafError
from jianmu.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    EffectFinished,
    EffectInDoubt,
    EffectReused,
    EffectStarted,
    LeafFailed,
    emit,
    scope,
)
from jianmu.runtime.approval import ApprovalDesk
from jianmu.runtime.journal import DONE, STARTED, EffectJournal
from jianmu.runtime.result import LeafErrorPolicy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    from py_trees.behaviour import Behaviour

    from jianmu.runtime.binding import TreeBinding
    from jianmu.state import StateManager

    Work: TypeAlias = Callable[[], Coroutine[Any, Any, Any]]
    Drive: TypeAlias = Callable[[Work], Coroutine[Any, Any, Any]]


class RunHost:
    """Serves the leaves of one run.

    Args:
        state: the run's state manager; the journal and the requests live in its runtime metadata.
        thread_id: the run's thread.
        binding: the tree.
        policy: what an exception in a leaf becomes.
        wake: wakes the runner.
        save: saves the run as it is now.
        drive: wraps a leaf's coroutine; tests of crashes step through it.

    Attributes:
        errors: node path and error of each leaf that raised.
    """

    def __init__(
        self,
        state: StateManager[Any],
        thread_id: str,
        binding: TreeBinding,
        policy: LeafErrorPolicy,
        wake: Callable[[], None],
        save: Callable[[], Awaitable[None]],
        drive: Drive | None = None,
    ) -> None:
        self._state = state
        self._thread_id = thread_id
        self._binding = binding
        self._policy = policy
        self._wake = wake
        self._save = save
        self._drive = drive
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[Any], Behaviour] = {}
        self._running_effects: dict[tuple[str, str], Behaviour] = {}
        self._waiting: dict[str, tuple[Behaviour, asyncio.Event]] = {}
        self.errors: list[tuple[str, Exception]] = []
        metadata = state.runtime_metadata
        self.journal = EffectJournal(thread_id, metadata.setdefault("effects", {}))
        self.desk = ApprovalDesk(thread_id, metadata.setdefault("approvals", {}))

    # -- what leaves ask for ------------------------------------------------------------------------------------

    @property
    def state(self) -> StateManager[Any]:
        """The run's state."""
        return self._state

    @property
    def thread_id(self) -> str:
        """The run's thread."""
        return self._thread_id

    def path_of(self, leaf: Behaviour) -> str:
        """Return the leaf's path in the tree."""
        return self._binding.path_of(leaf)

    def spawn(self, leaf: Behaviour, work: Work) -> asyncio.Task[Any]:
        """Start a leaf's task and own it."""
        with scope(node=self.path_of(leaf)):
            task = self._loop.create_task(work() if self._drive is None else self._drive(work))
        self._tasks[task] = leaf
        task.add_done_callback(self._task_done)
        return task

    def failed(self, leaf: Behaviour, error: Exception) -> Status:
        """Apply the policy for a leaf that raised."""
        path = self.path_of(leaf)
        self.errors.append((path, error))
        emit(LeafFailed(path=path, error=str(error), error_type=type(error).__name__))
        if self._policy is LeafErrorPolicy.RAISE:
            raise LeafError(path, f"raised {error!r}") from error
        return Status.FAILURE

    def ended(self, leaf: Behaviour, *, completed: bool) -> None:
        """Close a leaf's round; one that raised keeps its journal for the next try."""
        if completed:
            path = self.path_of(leaf)
            self.journal.end_round(path)
            for request_id in self.desk.end_round(path):
                emit(ApprovalDecided(request_id=request_id, decision="cancelled", by=""))

    async def effect(
        self, leaf: Behaviour, key: str, call: Callable[[str], Awaitable[Any]], arguments: Any, options: EffectOptions
    ) -> Any:
        """Run an effect through the journal: saved as started before, as done after."""
        path = self.path_of(leaf)
        entry = self.journal.entry_id(path, key, arguments)
        status = self.journal.status(path, entry)
        if status == DONE:
            emit(EffectReused(key=key, path=path))
            return self.journal.result(path, entry)
        if status == STARTED and (path, key) not in self._running_effects:
            settled = await self._settle(leaf, path, key, options)
            if settled is not NOT_DONE:
                return await self._finish_effect(path, key, entry, settled)
        with self._effect_running(leaf, path, key):
            self.journal.start(path, entry)
            await self._save()
            emit(EffectStarted(key=key, path=path))
            try:
                result = await call(self.journal.idempotency_key(path, key))
            except Exception:
                self.journal.forget(path, entry)
                raise
            return await self._finish_effect(path, key, entry, result)

    async def request_approval(
        self, leaf: Behaviour, key: str, tool: str, args: dict[str, Any], expires_in: float | None, prompt: str
    ) -> Decision:
        """Ask a human and wait for the decision; it is saved before the leaf goes on."""
        path = self.path_of(leaf)
        request_id = self.desk.request_id(path, self.journal.round(path), key)
        request, new = self.desk.ask(request_id, path, tool, args, expires_in, prompt)
        decision = self.desk.decision(request_id)
        if decision is None:
            if new:
                await self._save()
            decision = await self._wait_for_decision(leaf, request)
            await self._save()
        return decision

    # -- what the runner asks for -------------------------------------------------------------------------------

    def decide(self, request: ApprovalRequest | str, outcome: Outcome, **details: Any) -> Decision:
        """Take a decision for an open request and let its leaf go on; from any thread."""
        decision = self.desk.decide(request, outcome, **details)
        emit(ApprovalDecided(request_id=decision.request_id, decision=outcome, by=decision.by))
        waiting = self._waiting.get(decision.request_id)
        if waiting is not None:
            self._loop.call_soon_threadsafe(waiting[1].set)
        return decision

    def only_humans_can_help(self) -> bool:
        """Whether every unfinished leaf task waits for a human decision, and there is one."""
        asking = {id(leaf) for leaf, _ in self._waiting.values()}
        busy = {id(leaf) for leaf in self._running_effects.values()}
        working = {id(leaf) for task, leaf in self._tasks.items() if not task.done()}
        return bool(asking) and working <= asking and not busy

    def describe(self) -> list[str]:
        """Say in words what leaves wait for."""
        return [
            *(f"{path!r} runs effect {key!r}" for path, key in self._running_effects),
            *(f"{r.path!r} waits for a decision on {r.tool!r} (request {r.id})" for r in self.desk.pending()),
        ]

    async def close(self) -> None:
        """Cancel every task and wait until none is left."""
        while self._tasks:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- inside -------------------------------------------------------------------------------------------------

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled():
            task.exception()  # a leaf that was interrupted never asks for it; without this asyncio would complain
        self._wake()

    async def _finish_effect(self, path: str, key: str, entry: str, result: Any) -> Any:
        try:
            self.journal.finish(path, entry, result)
        finally:
            await self._save()
        emit(EffectFinished(key=key, path=path))
        return result

    async def _settle(self, leaf: Behaviour, path: str, key: str, options: EffectOptions) -> Any:
        """Find out what became of an effect that was started before a crash: its result, or `NOT_DONE`."""
        emit(EffectInDoubt(key=key, path=path))
        if options.idempotent:
            return NOT_DONE
        if options.reconcile is not None:
            found = options.reconcile(self.journal.idempotency_key(path, key))
            return await found if inspect.isawaitable(found) else found
        if options.in_doubt == "ask":
            prompt = f"Effect {key!r} was started before a crash and may have happened. Run it again?"
            answer = await self.request_approval(leaf, f"in-doubt:{key}", key, {}, None, prompt)
            if answer.approved:
                return NOT_DONE
        raise EffectInDoubtError(
            key,
            f"node {path!r} started it before a crash and nothing tells whether it happened; pass idempotent=True, "
            'reconcile=... or in_doubt="ask"',
        )

    @contextmanager
    def _effect_running(self, leaf: Behaviour, path: str, key: str) -> Generator[None]:
        if (path, key) in self._running_effects:
            raise EffectInDoubtError(key, f"node {path!r} runs it twice at the same time; give each its own key")
        self._running_effects[path, key] = leaf
        try:
            yield
        finally:
            del self._running_effects[path, key]

    async def _wait_for_decision(self, leaf: Behaviour, request: ApprovalRequest) -> Decision:
        decided = asyncio.Event()
        self._waiting[request.id] = (leaf, decided)
        emit(ApprovalRequested(request_id=request.id, tool=request.tool, args=request.args, path=request.path))
        self._wake()  # the runner may want to suspend
        try:
            async with asyncio.timeout(_seconds_left(request)):
                while self.desk.decision(request.id) is None:  # it may have come while the request was being saved
                    await decided.wait()
        except TimeoutError:
            emit(ApprovalExpired(request_id=request.id))
            return self.desk.expire(request.id)
        finally:
            del self._waiting[request.id]
        decision = self.desk.decision(request.id)
        assert decision is not None
        return decision


def _seconds_left(request: ApprovalRequest) -> float | None:
    return None if request.expires_at is None else max(0.0, request.expires_at - time.time())
