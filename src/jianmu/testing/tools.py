"""The contract of a tool as a test suite: subclass it for a tool and pytest runs it."""

from __future__ import annotations

import asyncio
import copy
import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from jianmu.errors import ToolArgumentsError
from jianmu.messages import ToolCall
from jianmu.tools import Tool, ToolSet, result_text, to_anthropic, to_gemini, to_mcp, to_openai
from jianmu.tools.arguments import find_problems
from jianmu.tools.base import check_tool

if TYPE_CHECKING:
    from collections.abc import Iterator

# Text and numbers may stand for each other where a tool converts them; these stand for nothing else.
_MISFITS: tuple[Any, ...] = (["text", 7], {"some": "thing"})


class ToolContract(ABC):
    """What every tool has to do, whatever it does.

    Subclass it, write `make` and `examples`, and let pytest collect the subclass. The tests call the tool.

    Example:
        >>> class TestWeather(ToolContract):  # doctest: +SKIP
        ...     def make(self):
        ...         return weather
        ...
        ...     def examples(self):
        ...         return [{"city": "上海"}, {"city": "Berlin", "days": 3}]
    """

    @abstractmethod
    def make(self) -> Tool:
        """Make the tool, ready to be called."""

    @abstractmethod
    def examples(self) -> list[dict[str, Any]]:
        """Give arguments that fit and that the tool answers without an error; at least one set, as decoded JSON."""

    def test_can_be_offered(self) -> None:
        """R47: it has a name that every provider takes, a description, and a schema of an object."""
        tool = check_tool(self.make())
        assert tool.description.strip()
        assert tool.effect in ("read", "write")

    def test_can_be_described_to_every_provider(self) -> None:
        """R47: each form is JSON, the same every time, and carries the name."""
        for form in (to_openai, to_anthropic, to_gemini, to_mcp):
            text = json.dumps(form([self.make()]))
            assert text == json.dumps(form([self.make()]))
            assert json.dumps(self.make().name) in text

    def test_requires_only_what_it_describes(self) -> None:
        """R47: every required parameter is among the properties."""
        schema = self.make().input_schema
        assert set(schema.get("required", ())) <= set(schema.get("properties", {}))

    def test_takes_its_examples(self) -> None:
        """R42: arguments that fit are taken, and stay as they are."""
        tool = self.make()
        for arguments in self._examples():
            before = copy.deepcopy(arguments)
            tool.validate(arguments)
            assert arguments == before
            assert find_problems(arguments, tool.input_schema) == []

    def test_names_what_is_missing(self) -> None:
        """R42: a required parameter that is left out is a problem at its path."""
        tool = self.make()
        for name in tool.input_schema.get("required", ()):
            arguments = {key: value for key, value in self._examples()[0].items() if key != name}
            assert any(problem["path"] == name for problem in _problems(tool, arguments))

    def test_refuses_unknown_parameters(self) -> None:
        """R42: a parameter that the schema does not know is a problem, unless the schema allows any."""
        tool = self.make()
        if not tool.input_schema.get("additionalProperties"):
            problems = _problems(tool, {**self._examples()[0], "no_such_parameter": "x"})
            assert {"path": "no_such_parameter", "received": "x"}.items() <= problems[0].items()

    def test_refuses_wrong_types(self) -> None:
        """R42: a value that does not fit its parameter's schema is a problem at its path, and shown again."""
        tool = self.make()
        for name, wrong in _misfits(tool):
            problems = _problems(tool, {**self._examples()[0], name: wrong})
            assert any(problem["path"].startswith(name) for problem in problems), name

    def test_takes_null_for_not_given(self) -> None:
        """R42: models that must fill in every parameter send null for an optional one."""
        tool = self.make()
        schema = tool.input_schema
        for name in set(schema.get("properties", {})) - set(schema.get("required", ())):
            tool.validate({**self._examples()[0], name: None})

    async def test_answers_its_examples(self) -> None:
        """R42: each example gives a result that fits the output schema and can be told to a model."""
        tool = self.make()
        for arguments in self._examples():
            result = await tool.invoke(arguments)
            text = result_text(result)
            assert isinstance(text, str)
            if tool.output_schema is not None:
                plain = result if isinstance(result, str) else json.loads(text)
                assert find_problems(plain, tool.output_schema) == []

    async def test_answers_in_a_set(self) -> None:
        """R47: called by name in a set, each example is answered without an error."""
        tool = self.make()
        calls = [ToolCall(name=tool.name, arguments=arguments) for arguments in self._examples()]
        results = await ToolSet([tool]).execute(calls, approved=[call.id for call in calls])
        assert [result.tool_call_id for result in results] == [call.id for call in calls]
        assert not any(result.metadata.get("is_error") for result in results)

    async def test_can_be_called_side_by_side(self) -> None:
        """R47: a tool that is not sequential can be called several times at once."""
        tool = self.make()
        if not tool.sequential:
            await asyncio.gather(*(tool.invoke(self._examples()[0]) for _ in range(8)))

    async def test_keeps_the_promise_of_idempotent(self) -> None:
        """R47: an idempotent tool gives the same result for the same arguments again."""
        tool = self.make()
        if tool.idempotent:
            for arguments in self._examples():
                first = result_text(await tool.invoke(arguments))
                assert result_text(await tool.invoke(arguments)) == first

    async def test_tells_whether_it_needs_approval(self) -> None:
        """R48: the approval rule answers for each example without failing."""
        tool = self.make()
        for arguments in self._examples():
            rule = tool.requires_approval
            answer = rule if isinstance(rule, bool) else rule(copy.deepcopy(arguments))
            assert (answer if isinstance(answer, bool) else await answer) is await tool.needs_approval(arguments)

    def test_can_be_renamed(self) -> None:
        """R47: another name gives another tool and leaves this one as it is."""
        tool = self.make()
        name = tool.name
        twin = tool.renamed(f"x_{name}"[:64])
        assert (twin.name, tool.name) == (f"x_{name}"[:64], name)
        assert twin.input_schema == tool.input_schema

    def _examples(self) -> list[dict[str, Any]]:
        examples = self.examples()
        assert examples, "examples() has to give at least one set of arguments"
        return examples


def _problems(tool: Tool, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        tool.validate(arguments)
    except ToolArgumentsError as error:
        return error.problems
    raise AssertionError(f"{tool.name} took {arguments!r}")


def _misfits(tool: Tool) -> Iterator[tuple[str, Any]]:
    """Give for each parameter the values that its own schema refuses."""
    schema = tool.input_schema
    for name, part in schema.get("properties", {}).items():
        for value in _MISFITS:
            if find_problems(value, part, root=schema):
                yield name, value
