"""What a leaf may ask of the runner that runs it, and the requests and decisions they exchange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Coroutine

    from py_trees.behaviour import Behaviour
    from py_trees.common import Status

    from jianmu.state import StateManager

InDoubt: TypeAlias = Literal["fail", "ask"]
Outcome: TypeAlias = Literal["approved", "denied", "expired", "cancelled"]


class _NotDone:
    """The type of `NOT_DONE`."""

    def __repr__(self) -> str:
        return "NOT_DONE"


NOT_DONE: Final = _NotDone()
"""What a ``reconcile`` function returns when the outside world shows that the effect did not happen."""


@dataclass(frozen=True, kw_only=True)
class ApprovalRequest:
    """A question that a human has to decide before a leaf goes on.

    Attributes:
        id: names the request; the same after a restart.
        tool: what is asked for, usually a tool's name.
        args: its arguments, as the human is shown them.
        args_hash: fingerprint of ``args``; a decision repeats it, so that nobody approves what he did not see.
        path: the node that asks.
        created_at: when it was first asked, seconds since the epoch.
        expires_at: when it can no longer be decided, seconds since the epoch; None for never.
        prompt: a sentence for the human.
    """

    id: str
    tool: str
    args: dict[str, Any]
    args_hash: str
    path: str
    created_at: float
    expires_at: float | None = None
    prompt: str = ""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What became of an approval request.

    Attributes:
        request_id: the request.
        outcome: ``approved``, ``denied``, ``expired`` or ``cancelled``.
        args: the arguments to go on with: those that were shown, or the edited ones.
        args_hash: fingerprint of ``args``.
        by: who decided.
        reason: why, in words for the model.
    """

    request_id: str
    outcome: Outcome
    args: dict[str, Any]
    args_hash: str
    by: str = ""
    reason: str = ""

    @property
    def approved(self) -> bool:
        """Whether the leaf may go on."""
        return self.outcome == "approved"


@dataclass(frozen=True, kw_only=True)
class EffectOptions:
    """How an effect whose outcome is unknown after a crash is settled.

    Attributes:
        idempotent: running it again does no harm: run it again.
        reconcile: asks the outside world: returns the effect's result, or `NOT_DONE`.
        in_doubt: with neither of these, ``"fail"`` raises and ``"ask"`` lets a human decide to run it again.
    """

    idempotent: bool = False
    reconcile: Callable[[str], Any] | None = None
    in_doubt: InDoubt = "fail"


class LeafHost(Protocol):
    """The runner, as its leaves see it."""

    @property
    def state(self) -> StateManager[Any]:
        """The run's state."""
        ...

    @property
    def thread_id(self) -> str:
        """The run's thread."""
        ...

    def path_of(self, leaf: Behaviour) -> str:
        """Return the leaf's path in the tree."""
        ...

    def spawn(self, leaf: Behaviour, work: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[Any]:
        """Start a leaf's task; the host wakes the tree when it ends and cancels it on every exit."""
        ...

    def failed(self, leaf: Behaviour, error: Exception) -> Status:
        """Apply the policy for a leaf that raised: return FAILURE, or raise."""
        ...

    def ended(self, leaf: Behaviour, *, completed: bool) -> None:
        """Note that one activation of a leaf is over; ``completed`` is False when it raised."""
        ...

    async def effect(
        self, leaf: Behaviour, key: str, call: Callable[[str], Awaitable[Any]], arguments: Any, options: EffectOptions
    ) -> Any:
        """Run an effect through the journal."""
        ...

    async def request_approval(
        self, leaf: Behaviour, key: str, tool: str, args: dict[str, Any], expires_in: float | None, prompt: str
    ) -> Decision:
        """Ask a human and wait for the decision."""
        ...
