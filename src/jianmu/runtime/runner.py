"""Ticks a behaviour tree until it is done, saves it after each tick, and resumes it where it was."""

from __future__ import annotations

import asyncio
import warnings
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from py_trees.common import Status
from py_trees.trees import BehaviourTree

from jianmu.config import Durability, RuntimeCheckpointConfig
from jianmu.errors import CheckpointNotFoundError, CheckpointVersionError, ConfigurationError
from jianmu.events import CheckpointRestored, RunStarted, emit, scope
from jianmu.memory.checkpoint.capabilities import HistoryCapable
from jianmu.memory.checkpoint.factory import make_checkpointer
from jianmu.memory.checkpoint.in_memory import InMemoryCheckpointer
from jianmu.runtime.binding import TreeBinding
from jianmu.runtime.host import RunHost
from jianmu.runtime.lock import thread_lock
from jianmu.runtime.restore import RestorePolicy, TreeRecorder, TreeRestorer, verify_restorable
from jianmu.runtime.result import LeafErrorPolicy, RestorabilityWarning, RunResult, SuspensionMode
from jianmu.runtime.session import METADATA_FORMAT, Session
from jianmu.runtime.wake import WakeFlag

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from py_trees.behaviour import Behaviour

    from jianmu.behaviours import ApprovalRequest
    from jianmu.events import RuntimeEventBus
    from jianmu.memory.checkpoint.protocol import CheckpointerProtocol, Envelope
    from jianmu.runtime.host import Drive
    from jianmu.state import StateManager


class ReactiveRunner:
    """Runs a behaviour tree over a state.

    The tree is ticked when something happened that may move it: a leaf's task ended, the state was changed from
    outside, a timer is due, `wake` was called. With a checkpointer each tick is saved, and a later run with the same
    ``thread_id``, in this process or another one, goes on from there.

    Args:
        root: the tree, a py_trees behaviour or BehaviourTree. Build one tree per runner.
        state_manager: the state its leaves read and write.
        events: the bus that is told what happens.
        suspension_mode: what to do when only human decisions can move the tree on.
        on_leaf_error: what an exception in a leaf becomes.
        idle_interval: seconds between two looks at plain leaves that are RUNNING and have no way to wake the tree.
        checkpoint_config: used when ``run`` is given no checkpointer; by default none is made and nothing is saved.

    Attributes:
        total_tick_count: ticks of the thread so far, over all its runs.

    Example:
        >>> runner = ReactiveRunner(root=my_tree, state_manager=state)          # doctest: +SKIP
        >>> result = await runner.run(checkpointer=files, thread_id="session-42")  # doctest: +SKIP
        >>> result == Status.SUCCESS                                            # doctest: +SKIP
        True
    """

    def __init__(
        self,
        root: Behaviour | BehaviourTree,
        state_manager: StateManager[Any],
        *,
        events: RuntimeEventBus | None = None,
        suspension_mode: SuspensionMode = SuspensionMode.BLOCK,
        on_leaf_error: LeafErrorPolicy = LeafErrorPolicy.FAIL,
        idle_interval: float = 0.05,
        checkpoint_config: RuntimeCheckpointConfig | None = None,
    ) -> None:
        if idle_interval <= 0:
            raise ConfigurationError(f"idle_interval is {idle_interval}; it must be more than 0 seconds")
        self.root = root.root if isinstance(root, BehaviourTree) else root
        self.state_manager = state_manager
        self.events = events
        self.total_tick_count = 0
        self._suspension_mode = suspension_mode
        self._on_leaf_error = on_leaf_error
        self._idle_interval = idle_interval
        self._checkpoint_config = checkpoint_config or RuntimeCheckpointConfig()
        self._wake_flag = WakeFlag()
        self._decisions: list[tuple[ApprovalRequest | str, bool, dict[str, Any]]] = []
        self._recorder: TreeRecorder | None = None
        self._warned = False
        self._private_checkpointer: CheckpointerProtocol | None = None
        self._current: Session | None = None
        self._restorer: TreeRestorer | None = None
        self._drive: Drive | None = None  # set by jianmu.testing.crash to step through leaves

    # -- running ------------------------------------------------------------------------------------------------

    async def run(
        self,
        input_data: Mapping[str, Any] | None = None,
        *,
        checkpointer: CheckpointerProtocol | None = None,
        thread_id: str | None = None,
        checkpoint_interval: int | None = None,
        restore_policy: RestorePolicy = RestorePolicy.AUTO,
        from_step: int | None = None,
        suspension_mode: SuspensionMode | None = None,
        durability: Durability | None = None,
    ) -> RunResult:
        """Run the tree until its root succeeds or fails, or until the run is suspended or stopped.

        When the thread has a checkpoint it is restored first, and ``input_data`` is then merged through the reducers:
        that is how the next turn of a conversation arrives. A thread that had finished returns its stored status
        without a tick, unless there is input for another turn.

        Args:
            input_data: values for state fields.
            checkpointer: where to save; None saves nothing unless the configuration says otherwise.
            thread_id: the stable name of the run; needed with a checkpointer.
            checkpoint_interval: save every so many ticks, at least 1.
            restore_policy: what to do with what is saved, and with a tree that is not the one that was saved.
            from_step: go back: restore this step instead of the one saved last.
            suspension_mode: overrides the runner's.
            durability: when a tick is saved: ``"sync"`` (default), ``"async"`` or ``"exit"``.

        Returns:
            How it ended; equal to its `Status`.

        Raises:
            ThreadLockedError: another runner works on this thread.
            TreeInUseError: another runner runs this tree.
            TreeChangedError: STRICT, and the tree is not the one that was saved.
            CheckpointSaveError: a save failed; what was saved before is intact.
            LeafError: a leaf returned no Status, or raised under `LeafErrorPolicy.RAISE`.
        """
        mode = suspension_mode or self._suspension_mode
        checkpointer = self._checkpointer_for(checkpointer, mode)
        session = Session(
            self,
            TreeBinding(self.root),
            thread_id=_thread_for(thread_id, checkpointer),
            mode=mode,
            interval=self._interval_for(checkpoint_interval),
            durability=durability or self._checkpoint_config.durability,
            checkpointer=checkpointer,
        )
        async with AsyncExitStack() as stack:
            stack.enter_context(scope(bus=self.events, thread_id=session.thread_id, run_id=uuid4().hex))
            stack.enter_context(session.binding.claimed())
            await stack.enter_async_context(thread_lock(checkpointer, session.thread_id))
            self._set_up(session)
            envelope = await self._load(session, restore_policy, from_step)
            self._begin(session, envelope, restore_policy, input_data)
            if self._had_finished(envelope, restore_policy) and not input_data:
                return session.result()
            self._wake_flag.attach()
            stack.enter_context(self._made_current(session))
            await stack.enter_async_context(session.open())
            self._take_input(session, input_data if envelope is not None else None)
            return await session.tick_until_done()

    def wake(self) -> None:
        """Ask for a tick; from any thread, also before the run starts."""
        self._wake_flag.wake()

    def stop(self) -> None:
        """End the run after the current tick; from any thread. It can be resumed."""
        if self._current is not None:
            self._current.stopping = True
            self.wake()

    def explain_wait(self) -> list[str]:
        """Say in words what the tree waits for; empty when nothing runs."""
        return [] if self._current is None else self._current.explain_wait()

    # -- approval -----------------------------------------------------------------------------------------------

    @property
    def pending_requests(self) -> tuple[ApprovalRequest, ...]:
        """The approval requests that are open in the current run."""
        session = self._current
        return () if session is None or session.host is None else session.host.desk.pending()

    def approve(
        self,
        request: ApprovalRequest | str,
        *,
        args_hash: str | None = None,
        args: dict[str, Any] | None = None,
        by: str = "",
        reason: str = "",
    ) -> None:
        """Approve a request, in the running run or at the start of the next one.

        Args:
            request: the request, or its id together with ``args_hash``.
            args_hash: fingerprint of the arguments that were seen.
            args: edited arguments to go on with.
            by: who approves.
            reason: why.

        Raises:
            UnknownRequestError: no request has this id, or the arguments seen are not those asked for.
            RequestDecidedError: it was decided before, or it has expired.
        """
        self._decide(request, True, {"args_hash": args_hash, "args": args, "by": by, "reason": reason})

    def deny(
        self, request: ApprovalRequest | str, *, args_hash: str | None = None, by: str = "", reason: str = ""
    ) -> None:
        """Deny a request; the arguments are as for `approve`."""
        self._decide(request, False, {"args_hash": args_hash, "by": by, "reason": reason})

    def _decide(self, request: ApprovalRequest | str, approved: bool, details: dict[str, Any]) -> None:
        session = self._current
        if session is None or session.host is None:
            self._decisions.append((request, approved, details))
        else:
            with scope(bus=self.events, thread_id=session.thread_id):  # the caller is no task of the run
                session.host.decide(request, "approved" if approved else "denied", **details)
            self.wake()

    # -- restoring and saving -----------------------------------------------------------------------------------

    def _try_restore_from_checkpoint(self, session: Session, envelope: Envelope, policy: RestorePolicy) -> None:
        """Put back state, metadata and tree, in this order."""
        metadata = dict(envelope["runtime_metadata"])
        _check_format(metadata.pop("format", METADATA_FORMAT), session.thread_id)
        exact = metadata.pop("tree", None)
        self.state_manager.initialize(envelope["state"], restoring=True)
        self.state_manager.restore_runtime_metadata(metadata)
        self.total_tick_count = envelope["step"]
        self._restorer = TreeRestorer(self._known_tree(), policy, exact)
        self._restore_tree_status(envelope["tree"])
        self._repair_running_composite_pointers()
        session.report = self._restorer.finish()
        emit(_restored_event(session, envelope))

    def _restore_tree_status(self, tree_state: Mapping[str, str] | None) -> None:
        """Give each node the status it had."""
        assert self._restorer is not None
        self._restorer.restore_statuses(tree_state)

    def _repair_running_composite_pointers(self) -> None:
        """Let each composite go on with the child it was at."""
        assert self._restorer is not None
        self._restorer.repair_pointers()

    async def _maybe_save_checkpoint(self) -> None:
        """Save the tick that has just ended, every ``checkpoint_interval`` ticks."""
        session = self._current
        if session is not None and session.saver is not None and self.total_tick_count % session.interval == 0:
            await session.saver.after_tick()

    async def _save_checkpoint_now(self) -> None:
        """Save at once, without waiting for the interval."""
        session = self._current
        if session is not None and session.saver is not None:
            await session.saver.settle()
            await session.saver.now()

    # -- before the first tick ----------------------------------------------------------------------------------

    def _set_up(self, session: Session) -> None:
        if self._recorder is None:
            for node in reversed(session.binding.nodes):
                node.setup()
            self._recorder = TreeRecorder(self.root)  # knows the tree fresh: after setup, before its first tick
        if session.checkpointer is not None and not self._warned:
            self._warned = True
            problems = verify_restorable(self.root)
            if problems:
                listed = "\n  ".join(f"{problem.path}: {problem.reason}" for problem in problems)
                warnings.warn(
                    f"these nodes can not be resumed exactly:\n  {listed}", RestorabilityWarning, stacklevel=3
                )

    def _known_tree(self) -> TreeRecorder:
        assert self._recorder is not None
        return self._recorder

    async def _load(self, session: Session, policy: RestorePolicy, from_step: int | None) -> Envelope | None:
        checkpointer = session.checkpointer
        if checkpointer is None or policy is RestorePolicy.NEVER:
            return None
        if from_step is None:
            return await _off_loop(checkpointer, checkpointer.get_checkpoint, session.thread_id)
        if not isinstance(checkpointer, HistoryCapable):
            raise ConfigurationError(f"{type(checkpointer).__name__} keeps no history, so from_step can not be used")
        envelope = await _off_loop(checkpointer, checkpointer.get_checkpoint_at, session.thread_id, from_step)
        if envelope is None:
            raise CheckpointNotFoundError(
                "there is no checkpoint of this step", thread_id=session.thread_id, step=from_step
            )
        return envelope

    def _begin(
        self, session: Session, envelope: Envelope | None, policy: RestorePolicy, input_data: Mapping[str, Any] | None
    ) -> None:
        if envelope is not None:
            self._try_restore_from_checkpoint(session, envelope, policy)
        else:
            self.state_manager.initialize(input_data)
            self.state_manager.restore_runtime_metadata({})
            self.total_tick_count = 0
        emit(RunStarted(thread_id=session.thread_id, root=self.root.name, restored=envelope is not None))

    def _had_finished(self, envelope: Envelope | None, policy: RestorePolicy) -> bool:
        if envelope is None or policy is RestorePolicy.STATE_ONLY:
            return False
        return self.root.status in (Status.SUCCESS, Status.FAILURE)

    def _make_host(self, session: Session) -> RunHost:
        return RunHost(
            self.state_manager,
            session.thread_id,
            session.binding,
            self._on_leaf_error,
            self.wake,
            self._save_checkpoint_now,
            self._drive,
        )

    @contextmanager
    def _made_current(self, session: Session) -> Generator[None]:
        self._current = session
        try:
            yield
        finally:
            self._current = None

    def _take_input(self, session: Session, more_input: Mapping[str, Any] | None) -> None:
        assert session.host is not None
        if more_input:
            self.state_manager.update(more_input)
        decisions, self._decisions = self._decisions, []
        for request, approved, details in decisions:
            session.host.decide(request, "approved" if approved else "denied", **details)

    # -- arguments of run() -------------------------------------------------------------------------------------

    def _checkpointer_for(
        self, given: CheckpointerProtocol | None, mode: SuspensionMode
    ) -> CheckpointerProtocol | None:
        if given is not None:
            return given
        if self._checkpoint_config.enabled:
            return make_checkpointer(self._checkpoint_config)
        if mode is SuspensionMode.YIELD:
            # A run that yields must be able to go on; without a checkpointer it can, within this runner.
            self._private_checkpointer = self._private_checkpointer or InMemoryCheckpointer()
            return self._private_checkpointer
        return None

    def _interval_for(self, given: int | None) -> int:
        interval = self._checkpoint_config.interval if given is None else given
        if interval < 1:
            raise ConfigurationError(f"checkpoint_interval is {interval}; it must be at least 1 tick")
        return interval


def _thread_for(thread_id: str | None, checkpointer: CheckpointerProtocol | None) -> str:
    if thread_id:
        return thread_id
    if checkpointer is None or isinstance(checkpointer, InMemoryCheckpointer):
        return "default"
    raise ConfigurationError("run() was given a checkpointer but no thread_id: name the thread that is to be resumed")


def _check_format(found: Any, thread_id: str) -> None:
    if not isinstance(found, int) or found > METADATA_FORMAT:
        raise CheckpointVersionError(
            f"it was saved in format {found}, this Jianmu reads up to {METADATA_FORMAT}: upgrade jianmu",
            thread_id=thread_id,
        )


def _restored_event(session: Session, envelope: Envelope) -> CheckpointRestored:
    report = session.report
    assert report is not None
    return CheckpointRestored(
        thread_id=session.thread_id,
        has_state=True,
        has_tree_state=envelope["tree"] is not None,
        step=envelope["step"],
        restored=len(report.restored),
        new=tuple(report.new),
        dropped=tuple(report.dropped),
        warnings=tuple(report.warnings),
    )


async def _off_loop(
    checkpointer: CheckpointerProtocol, call: Callable[..., Envelope | None], *args: Any
) -> Envelope | None:
    if getattr(checkpointer, "local", False):
        return call(*args)
    return await asyncio.to_thread(call, *args)
