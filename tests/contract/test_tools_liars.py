"""The contract of tools catches tools that break it, each by the law it breaks."""

from __future__ import annotations

import inspect
import itertools
import threading
from typing import TYPE_CHECKING, Any

import pytest

from jianmu.testing.tools import ToolContract
from jianmu.tools import Tool

if TYPE_CHECKING:
    from collections.abc import Mapping


class Honest(Tool):
    """A tool that keeps every law."""

    name = "repeat"
    description = "Repeat a word."
    input_schema: Any = {  # noqa: RUF012
        "type": "object",
        "properties": {"word": {"type": "string"}, "times": {"type": "integer"}},
        "required": ["word"],
    }
    output_schema: Any = {"type": "string"}  # noqa: RUF012
    idempotent = True

    def run(self, word: str, times: int = 2) -> Any:
        return word * times


class NameWithBlanks(Honest):
    name = "repeat a word"


class SaysNothing(Honest):
    description = " "


class ChangesItsSchema(Honest):
    numbers = itertools.count()

    def __init__(self) -> None:
        number = next(self.numbers)
        self.input_schema = {**Honest.input_schema, "description": f"version {number}"}


class RequiresTheUnknown(Honest):
    input_schema = {**Honest.input_schema, "required": ["word", "language"]}  # noqa: RUF012


class RefusesItsExamples(Honest):
    input_schema = {**Honest.input_schema, "properties": {"word": {"type": "string", "maxLength": 1}}}  # noqa: RUF012


class EatsItsArguments(Honest):
    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        checked = super().validate(arguments)
        arguments.clear()  # type: ignore[attr-defined]
        return checked


class TakesAnything(Honest):
    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return dict(arguments)


class TakesNoNull(Honest):
    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if None in arguments.values():
            raise TypeError("null")
        return super().validate(arguments)


class AnswersAnotherType(Honest):
    def run(self, word: str, times: int = 2) -> Any:
        return [word] * times


class RaisesForAnExample(Honest):
    def run(self, word: str, times: int = 2) -> Any:
        if times == 3:
            raise ValueError("three")
        return super().run(word, times)


class NotSideBySide(Honest):
    busy = threading.Lock()
    together = threading.Barrier(2)

    def run(self, word: str, times: int = 2) -> Any:
        if not self.busy.acquire(blocking=False):
            self.together.wait(5)
            raise RuntimeError("busy")
        try:
            self.together.wait(5)
            return word
        finally:
            self.busy.release()


class NewEachTime(Honest):
    numbers = itertools.count()

    def run(self, word: str, times: int = 2) -> Any:
        return f"{word} {next(self.numbers)}"


class RuleThatFails(Honest):
    requires_approval = staticmethod(lambda arguments: arguments["no such key"])


class KeepsItsName(Honest):
    def renamed(self, name: str) -> Tool:
        self.name = name
        return self


LIARS: dict[type[Tool], str] = {
    NameWithBlanks: "test_can_be_offered",
    SaysNothing: "test_can_be_offered",
    ChangesItsSchema: "test_can_be_described_to_every_provider",
    RequiresTheUnknown: "test_requires_only_what_it_describes",
    RefusesItsExamples: "test_takes_its_examples",
    EatsItsArguments: "test_takes_its_examples",
    TakesAnything: "test_names_what_is_missing",
    TakesNoNull: "test_takes_null_for_not_given",
    AnswersAnotherType: "test_answers_its_examples",
    RaisesForAnExample: "test_answers_in_a_set",
    NotSideBySide: "test_can_be_called_side_by_side",
    NewEachTime: "test_keeps_the_promise_of_idempotent",
    RuleThatFails: "test_tells_whether_it_needs_approval",
    KeepsItsName: "test_can_be_renamed",
}


def suite(made: type[Tool]) -> ToolContract:
    class Suite(ToolContract):
        def make(self) -> Tool:
            return made()

        def examples(self) -> list[dict[str, Any]]:
            return [{"word": "ho"}, {"word": "ho", "times": 3}]

    return Suite()


LAWS = [name for name, _ in inspect.getmembers(ToolContract) if name.startswith("test_")]


async def check(made: type[Tool], law: str) -> None:
    outcome = getattr(suite(made), law)()
    if inspect.isawaitable(outcome):
        await outcome


@pytest.mark.parametrize("law", LAWS)
async def test_an_honest_tool_passes(law: str) -> None:
    await check(Honest, law)


@pytest.mark.parametrize("liar", LIARS, ids=lambda liar: liar.__name__)
async def test_a_liar_is_caught(liar: type[Tool]) -> None:
    with pytest.raises(Exception):  # noqa: B017 - a law is broken by a failed assertion or by the tool's own error
        await check(liar, LIARS[liar])


@pytest.mark.parametrize("law", ["test_refuses_unknown_parameters", "test_refuses_wrong_types"])
async def test_a_tool_that_takes_anything_breaks_more_than_one_law(law: str) -> None:
    with pytest.raises(AssertionError):
        await check(TakesAnything, law)


def test_every_law_has_a_liar() -> None:
    also = {"test_refuses_unknown_parameters", "test_refuses_wrong_types"}
    assert set(LAWS) == set(LIARS.values()) | also
