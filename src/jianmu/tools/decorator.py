"""`tool`: a function becomes a tool."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypedDict, TypeVar, Unpack, overload

from pydantic import ValidationError

from jianmu.errors import ToolArgumentsError, ToolSchemaError
from jianmu.tools.arguments import drop_unset
from jianmu.tools.base import ApprovalRule, Effect, Tool, check_tool
from jianmu.tools.schema import Signature, problems_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

P = ParamSpec("P")
R = TypeVar("R")


class ToolSettings(TypedDict, total=False):
    """What `tool` can be told; the attributes of `Tool` of the same names."""

    name: str
    description: str
    effect: Effect
    idempotent: bool
    requires_approval: ApprovalRule
    timeout: float | None
    sequential: bool
    max_result_chars: int | None


class FunctionTool(Tool, Generic[P, R]):
    """A tool made of a function by `tool`. Calling it calls the function."""

    def __init__(
        self, function: Callable[P, R], localns: Mapping[str, Any] | None = None, **settings: Unpack[ToolSettings]
    ) -> None:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ToolSchemaError(f"{function.__name__}: a generator cannot be a tool; return the whole result")
        if unknown := settings.keys() - ToolSettings.__annotations__.keys():
            raise TypeError(f"tool() got unknown settings: {', '.join(sorted(unknown))}")
        self._signature = Signature.of(function, localns)
        self.function = function
        self.__doc__ = function.__doc__
        self.name = getattr(function, "__name__", "")
        self.description = self._signature.description
        self.input_schema = self._signature.input_schema
        self.output_schema = self._signature.output_schema
        vars(self).update(settings)
        check_tool(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself: nothing is checked or timed."""
        return self.function(*args, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; the result of an async one has to be awaited."""
        return self.function(*args, **kwargs)

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Check arguments and return them as the function takes them: models built, defaults filled in.

        Raises:
            ToolArgumentsError: they do not fit the signature; lists every problem.
        """
        try:
            return self._signature.validate(drop_unset(dict(arguments), self.input_schema))
        except ValidationError as error:
            raise ToolArgumentsError(self.name, problems_of(error)) from None

    def _target(self) -> Callable[..., Any]:
        return self.function


@overload
def tool(function: Callable[P, R], /, **settings: Unpack[ToolSettings]) -> FunctionTool[P, R]: ...


@overload
def tool(**settings: Unpack[ToolSettings]) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **settings: Unpack[ToolSettings]) -> Any:
    """Make a tool of a function; with or without arguments.

    The schema comes from the signature: annotations (``Annotated`` with ``pydantic.Field``, ``Literal``, unions, nested
    models, dataclasses ...), defaults and default factories. Descriptions come from the docstring in Google, NumPy or
    Sphinx style. A parameter annotated `ToolContext` is filled in at the call and hidden from the model.

    Args:
        function: sync or async.
        **settings: attributes of `Tool`: name (the function's own when omitted), description (the docstring without
            its sections when omitted), effect, idempotent, requires_approval, timeout, sequential, max_result_chars.

    Raises:
        ToolSchemaError: the function cannot be described to a model; says which parameter and why.

    Example:
        >>> @tool
        ... def add(a: int, b: int = 1) -> int:
        ...     '''Add two numbers.
        ...
        ...     Args:
        ...         a: the first.
        ...         b: the second.
        ...     '''
        ...     return a + b
        >>> add(2, 3), add.input_schema["properties"]["b"]
        (5, {'default': 1, 'description': 'the second.', 'type': 'integer'})
    """
    frame = inspect.currentframe()
    localns = frame.f_back.f_locals if frame is not None and frame.f_back is not None else {}

    def made(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        return FunctionTool(function, localns, **settings)

    return made if function is None else made(function)
