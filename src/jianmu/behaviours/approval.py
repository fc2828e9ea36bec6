"""A leaf that waits for a human."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py_trees.common import Status

from jianmu.behaviours.base import AsyncBehaviour

if TYPE_CHECKING:
    from collections.abc import Callable

    from jianmu.state import StateManager


class ApprovalGate(AsyncBehaviour):
    """SUCCESS when a human approves, FAILURE when he denies or the request expires.

    Args:
        name: the behaviour's name.
        tool: what is asked for.
        args: its arguments, or a function that reads them from the state.
        expires_in: seconds after which nobody can decide any more; None for never.
        prompt: a sentence for the human.
        store: a state field that receives ``{"outcome", "args", "by", "reason"}``; None to store nothing.
        node_id: a stable identity that survives renaming.
    """

    def __init__(
        self,
        name: str,
        *,
        tool: str,
        args: dict[str, Any] | Callable[[StateManager[Any]], dict[str, Any]] | None = None,
        expires_in: float | None = None,
        prompt: str = "",
        store: str | None = None,
        node_id: str | None = None,
    ) -> None:
        super().__init__(name, node_id=node_id)
        self.tool = tool
        self.expires_in = expires_in
        self.prompt = prompt
        self.store = store
        self._args = args

    async def run(self) -> Status:
        """Ask and wait."""
        args = self._args(self.state) if callable(self._args) else self._args or {}
        decision = await self.request_approval(self.tool, args, expires_in=self.expires_in, prompt=self.prompt)
        if self.store is not None:
            outcome = {"outcome": decision.outcome, "args": decision.args, "by": decision.by, "reason": decision.reason}
            self.state.update({self.store: outcome})
        return Status.SUCCESS if decision.approved else Status.FAILURE
