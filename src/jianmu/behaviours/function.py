"""A leaf made from a function."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from py_trees.common import Status

from jianmu.behaviours.base import AsyncBehaviour
from jianmu.errors import InvalidTreeError, LeafError
from jianmu.state import Stage, staged

if TYPE_CHECKING:
    from collections.abc import Callable


class FunctionBehaviour(AsyncBehaviour):
    """Runs a function as a leaf.

    A coroutine function runs as a task, like `AsyncBehaviour.run`. A plain function runs inside the tick, so it must be
    quick; it may return RUNNING to be called again. What it writes counts only if it returns: a function that raises
    has written nothing.

    Args:
        name: the behaviour's name.
        function: takes nothing, or the state manager. It returns a Status; True stands for SUCCESS and False for
            FAILURE.
        node_id: a stable identity that survives renaming.

    Example:
        >>> ready = FunctionBehaviour("ready?", lambda state: len(state.get("lines")) > 3)
    """

    def __init__(self, name: str, function: Callable[..., Any], *, node_id: str | None = None) -> None:
        super().__init__(name, node_id=node_id)
        self._function = function
        self._takes_state = _takes_state(name, function)
        self.work_dies_with_process = inspect.iscoroutinefunction(function)

    async def run(self) -> Status:
        """Await the function."""
        return _as_status(await self._call())

    def initialise(self) -> None:
        """Start an asynchronous function; a plain one needs no start."""
        if self.work_dies_with_process:
            super().initialise()
        else:
            self.error = None

    def update(self) -> Status:
        """Call a plain function, or look whether the task of an asynchronous one is done."""
        if self.work_dies_with_process:
            return super().update()
        host = self._runner()
        stage = Stage(host.state)
        try:
            with staged(stage):
                status = _as_status(self._call())
            host.state.commit(stage)
        except Exception as error:
            return self._failed(error)
        if not isinstance(status, Status) or status == Status.INVALID:
            raise LeafError(host.path_of(self), f"its function returned {status!r}; return a Status, or True or False")
        return status

    def _call(self) -> Any:
        return self._function(self.state) if self._takes_state else self._function()


def _as_status(result: Any) -> Any:
    if isinstance(result, bool):
        return Status.SUCCESS if result else Status.FAILURE
    return result


def _takes_state(name: str, function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise InvalidTreeError(f"leaf {name!r}: {function!r} cannot be inspected; wrap it in a lambda") from error
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(required) > 1:
        names = [p.name for p in required]
        raise InvalidTreeError(f"leaf {name!r}: its function must take nothing or the state, but it asks for {names}")
    return bool(required)
