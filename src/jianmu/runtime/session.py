"""One call of ``run``: ticks the tree until it is done, and leaves nothing behind."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from py_trees.common import Status

from jianmu.events import (
    NodeStatusChanged,
    RunFailed,
    RunFinished,
    RunnerStalled,
    RunSuspended,
    StateUpdated,
    TickFinished,
    emit,
)
from jianmu.runtime.result import RunResult, SuspensionMode
from jianmu.runtime.saver import CheckpointSaver, Snapshot
from jianmu.runtime.wake import StallWatch, WaitPlan, wait_plan

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from jianmu.config import Durability
    from jianmu.memory.checkpoint.protocol import CheckpointerProtocol
    from jianmu.runtime.binding import TreeBinding
    from jianmu.runtime.host import RunHost
    from jianmu.runtime.restore import RestoreReport
    from jianmu.runtime.runner import ReactiveRunner

METADATA_FORMAT = 1
MAX_SELF_TICKS = 1000


class Session:
    """What belongs to one call of ``run``.

    Args:
        runner: whose run it is.
        binding: the tree.
        thread_id: the run's thread.
        mode: what to do when only humans can help.
        interval: save every so many ticks.
        durability: when a tick is saved.
        checkpointer: where to save; None saves nothing.

    Attributes:
        host: serves the leaves; None before the run is open.
        saver: writes snapshots; None when nothing is saved.
        report: what was restored.
        stopping: set to end the run after the current tick.
    """

    def __init__(
        self,
        runner: ReactiveRunner,
        binding: TreeBinding,
        *,
        thread_id: str,
        mode: SuspensionMode,
        interval: int,
        durability: Durability,
        checkpointer: CheckpointerProtocol | None,
    ) -> None:
        self._runner = runner
        self._root = binding.root
        self._state = runner.state_manager
        self._mode = mode
        self._durability: Durability = durability
        self._stall = StallWatch()
        self._statuses: tuple[Status, ...] = ()
        self._settled = False
        self._ticking = False
        self._self_ticks = 0
        self._revision = 0
        self.binding = binding
        self.thread_id = thread_id
        self.interval = interval
        self.checkpointer = checkpointer
        self.host: RunHost | None = None
        self.saver: CheckpointSaver | None = None
        self.report: RestoreReport | None = None
        self.stopping = False

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Own everything that runs: on every way out no task is left and the tree is stopped."""
        runner = self._runner
        self.host = host = runner._make_host(self)
        if self.checkpointer is not None:
            self.saver = CheckpointSaver(self.checkpointer, self.thread_id, self._durability, self._take_snapshot)
        unsubscribe = self._state.subscribe(self._state_changed)
        self.binding.tie(host)
        try:
            yield
        except Exception as error:
            emit(RunFailed(thread_id=self.thread_id, step=runner.total_tick_count, error=repr(error)))
            raise
        finally:
            unsubscribe()
            await self._leave(host)

    async def tick_until_done(self) -> RunResult:
        """Tick, save, wait; until the root is done, or the run is suspended or stopped."""
        runner, wake = self._runner, self._runner._wake_flag
        while True:
            wake.clear()
            self._tick_once()
            await runner._maybe_save_checkpoint()
            if self._root.status != Status.RUNNING:
                return await self._finished()
            plan = wait_plan(self.binding.nodes)
            if self.stopping or self._is_suspended(plan):
                return await self._paused()
            await wake.wait(self._patience(plan))

    def result(self, *, suspended: bool = False) -> RunResult:
        """Say how the run stands."""
        return RunResult(
            status=self._root.status,
            thread_id=self.thread_id,
            step=self._runner.total_tick_count,
            suspended=suspended,
            requests=() if self.host is None else self.host.desk.pending(),
            report=self.report,
            errors=() if self.host is None else tuple(self.host.errors),
        )

    def explain_wait(self) -> list[str]:
        """Say in words what the tree waits for."""
        waits = wait_plan(self.binding.nodes).describe()
        return waits if self.host is None else [*waits, *self.host.describe()]

    # -- inside -------------------------------------------------------------------------------------------------

    def _tick_once(self) -> None:
        self._ticking = True
        try:
            self._root.tick_once()
        except BaseException:
            if self.saver is not None:
                self.saver.closed = True  # half a tick must never be saved
            raise
        finally:
            self._ticking = False
        self._runner.total_tick_count += 1
        self._tell_tick()

    def _tell_tick(self) -> None:
        before, self._statuses = self._statuses, self.binding.statuses()
        if self._stall.note(self._statuses, self._revision):
            emit(RunnerStalled(waits=tuple(self.explain_wait())))
        if self._runner.events is None:
            return
        for node, old, new in zip(self.binding.nodes, before or self._statuses, self._statuses, strict=True):
            if old is not new:
                emit(NodeStatusChanged(path=self.binding.path_of(node), old=old.name, new=new.name))
        emit(TickFinished(step=self._runner.total_tick_count, status=self._root.status.name))

    def _take_snapshot(self) -> Snapshot:
        """Copy state, tree and metadata as they are between two ticks."""
        assert self.host is not None
        tree = self._runner._known_tree().snapshot()
        metadata: dict[str, Any] = {
            **self._state.runtime_metadata,
            "format": METADATA_FORMAT,
            "effects": self.host.journal.dump(),
            "approvals": self.host.desk.dump(),
            "tree": tree.exact,
        }
        return Snapshot(self._runner.total_tick_count, self._state.dump_checkpoint(), tree.statuses, metadata)

    def _is_suspended(self, plan: WaitPlan) -> bool:
        if self._mode is not SuspensionMode.YIELD or plan.moves_by_itself() or self._runner._wake_flag.raised:
            return False
        return self.host is not None and self.host.only_humans_can_help()

    def _patience(self, plan: WaitPlan) -> float | None:
        self._self_ticks = self._self_ticks + 1 if plan.ticks_itself else 0
        if self._self_ticks > MAX_SELF_TICKS:
            return self._runner._idle_interval
        return plan.timeout(self._runner._idle_interval)

    async def _finished(self) -> RunResult:
        step = self._runner.total_tick_count
        if self.saver is not None:
            await self.saver.settle()
            if self.saver.saved_step != step:
                await self.saver.now()
        self._settled = True
        emit(RunFinished(thread_id=self.thread_id, status=self._root.status.name, step=step))
        return self.result()

    async def _paused(self) -> RunResult:
        await self._runner._save_checkpoint_now()
        self._settled = True
        result = self.result(suspended=not self.stopping)
        requests = tuple(request.id for request in result.requests)
        emit(RunSuspended(thread_id=self.thread_id, step=result.step, requests=requests))
        return result

    def _state_changed(self, changed: Mapping[str, Any]) -> None:
        self._revision += 1
        runner = self._runner
        if runner.events is not None:
            update = StateUpdated(fields=tuple(changed))
            runner.events.emit(update, thread_id=self.thread_id, step=runner.total_tick_count)
        if not self._ticking:
            runner.wake()

    async def _leave(self, host: RunHost) -> None:
        saver = self.saver
        try:
            if self._durability == "exit" and saver is not None and not (saver.closed or self._settled):
                await saver.now()
        finally:
            if saver is not None:
                saver.closed = True
            await host.close()
            self.binding.untie()
