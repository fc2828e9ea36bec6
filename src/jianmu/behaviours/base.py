"""The asynchronous leaf: its work is a coroutine, its writes become visible with its completion."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, ClassVar

from py_trees.behaviour import Behaviour
from py_trees.common import Status

from jianmu.behaviours.host import EffectOptions
from jianmu.errors import InvalidTreeError, LeafError
from jianmu.state import Stage, staged

if TYPE_CHECKING:
    from collections.abc import Callable

    from jianmu.behaviours.host import Decision, InDoubt, LeafHost
    from jianmu.state import StateManager


class AsyncBehaviour(Behaviour):
    """A leaf whose work is the coroutine `run`.

    The first tick starts `run` as a task that the runner owns; the leaf is RUNNING until the task ends, and the tree is
    woken then. What `run` writes to the state is staged and committed in the tick that sees it done, so that a
    checkpoint never holds half a leaf. A leaf that is interrupted, or whose process dies, has written nothing and
    starts again from the beginning of `run`; wrap what must not happen twice in `effect`.

    Override `run`. Attributes set in it that JSON can hold are saved with the tree; to continue in the middle of the
    work after a crash, also define ``on_resume(saved)``.

    Args:
        name: the behaviour's name.
        node_id: a stable identity that survives renaming; by default the name and place in the tree.

    Example:
        >>> class Greet(AsyncBehaviour):
        ...     async def run(self) -> Status:
        ...         self.state.update(greeting="hello")
        ...         return Status.SUCCESS
    """

    work_dies_with_process: bool = True
    transient_attributes: ClassVar[frozenset[str]] = frozenset({"error", "_host", "_task", "_stage"})

    def __init__(self, name: str, *, node_id: str | None = None) -> None:
        super().__init__(name)
        self.node_id = node_id
        self.error: Exception | None = None
        self._host: LeafHost | None = None
        self._task: asyncio.Task[Any] | None = None
        self._stage: Stage | None = None

    async def run(self) -> Status:
        """Do the leaf's work.

        Returns:
            SUCCESS or FAILURE.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `async def run(self) -> Status`")

    # -- for use inside run() -----------------------------------------------------------------------------------

    @property
    def state(self) -> StateManager[Any]:
        """The run's state; writes made inside `run` are staged until the leaf is done.

        Raises:
            InvalidTreeError: the node is not being run by a ReactiveRunner.
        """
        return self._runner().state

    async def effect(
        self,
        key: str,
        call: Callable[..., Any],
        *args: Any,
        idempotent: bool = False,
        reconcile: Callable[[str], Any] | None = None,
        in_doubt: InDoubt = "fail",
        **kwargs: Any,
    ) -> Any:
        """Do something to the outside world, once.

        That the effect starts is saved before it, its result after it. When the leaf runs again after a crash, a
        finished effect gives its saved result without being done again; one that was started and has no result is in
        doubt and settled as the arguments say. One round of the leaf (from its start to its SUCCESS, FAILURE or
        interruption) remembers each key; a leaf that raises keeps what it has done for its next try.

        Args:
            key: names the effect within this leaf, such as ``"send-mail"`` or a tool call's id.
            call: a function, sync (run in a thread) or async; a parameter named ``idempotency_key`` receives a key
                that is the same on every try.
            *args: its arguments, which must be data.
            idempotent: in doubt, run it again.
            reconcile: in doubt, call this with the idempotency key: it returns the effect's result or `NOT_DONE`.
            in_doubt: with neither, ``"fail"`` raises, ``"ask"`` asks a human whether to run it again.
            **kwargs: its keyword arguments.

        Returns:
            What ``call`` returned, which must be data: after a crash it is read from the journal.

        Raises:
            EffectInDoubtError: it was started before a crash and nothing tells whether it happened.
        """
        options = EffectOptions(idempotent=idempotent, reconcile=reconcile, in_doubt=in_doubt)

        async def attempt(idempotency_key: str) -> Any:
            extra = {"idempotency_key": idempotency_key} if _wants_key(call) else {}
            if inspect.iscoroutinefunction(call):
                return await call(*args, **kwargs, **extra)
            result = await asyncio.to_thread(call, *args, **kwargs, **extra)
            return await result if inspect.isawaitable(result) else result

        return await self._runner().effect(self, key, attempt, [list(args), kwargs], options)

    async def request_approval(
        self,
        tool: str,
        args: dict[str, Any],
        *,
        key: str | None = None,
        expires_in: float | None = None,
        prompt: str = "",
    ) -> Decision:
        """Ask a human, and wait: in this process, or until another one resumes the thread with the decision.

        Args:
            tool: what is asked for, usually a tool's name.
            args: its arguments, as data; the decision may carry edited ones.
            key: names the request within this leaf; by default the tool's name.
            expires_in: seconds after which nobody can decide any more; None for never.
            prompt: a sentence for the human.
        """
        return await self._runner().request_approval(self, key or tool, tool, args, expires_in, prompt)

    # -- the life of the task, for py_trees and the runner --------------------------------------------------------

    def bind(self, host: LeafHost | None) -> None:
        """Attach the runner that runs this leaf, or detach it."""
        self._host = host

    def initialise(self) -> None:
        """Start the work."""
        self.error = None
        self._start()

    def update(self) -> Status:
        """Look whether the work is done; if so, commit its writes."""
        if self._task is None:
            self._start()  # resumed in the middle of its work
        task = self._task
        if task is None or not task.done():
            return Status.RUNNING
        return self._finish(task)

    def terminate(self, new_status: Status) -> None:
        """End an activation; unfinished work is cancelled and its writes are dropped."""
        task, self._task, self._stage = self._task, None, None
        if task is not None and not task.done():
            task.cancel()
        if self.status == Status.RUNNING and self._host is not None:
            self._host.ended(self, completed=self.error is None)

    def _start(self) -> None:
        host = self._runner()
        self._stage = Stage(host.state)
        with staged(self._stage):
            self._task = host.spawn(self, self.run)

    def _finish(self, task: asyncio.Task[Any]) -> Status:
        host, stage = self._runner(), self._stage
        try:
            status = self._checked(task.result())
            if stage is not None:
                host.state.commit(stage)
        except LeafError:
            raise
        except asyncio.CancelledError:
            return self._failed(LeafError(host.path_of(self), "its task was cancelled from outside"))
        except Exception as error:
            return self._failed(error)
        return status

    def _failed(self, error: Exception) -> Status:
        self.error = error
        self.feedback_message = f"{type(error).__name__}: {error}"
        return self._runner().failed(self, error)

    def _checked(self, result: Any) -> Status:
        if result in (Status.SUCCESS, Status.FAILURE):
            return result
        raise LeafError(
            self._runner().path_of(self), f"run() returned {result!r}; return Status.SUCCESS or Status.FAILURE"
        )

    def _runner(self) -> LeafHost:
        if self._host is None:
            raise InvalidTreeError(
                f"node {self.name!r} has no state manager: it only works in a tree that a ReactiveRunner runs"
            )
        return self._host


def _wants_key(call: Callable[..., Any]) -> bool:
    try:
        return "idempotency_key" in inspect.signature(call).parameters
    except (TypeError, ValueError):
        return False  # builtins without a signature
