"""The base class: checks, threads, time-outs, context, approval."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from jianmu.errors import ToolArgumentsError, ToolSchemaError, ToolTimeoutError
from jianmu.tools import Tool, ToolContext
from jianmu.tools.base import check_tool

asked_by: contextvars.ContextVar[str] = contextvars.ContextVar("asked_by", default="nobody")


class Search(Tool):
    name = "search"
    description = "Search."
    input_schema = {  # noqa: RUF012
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"],
    }

    def run(self, query: str, limit: int = 3) -> str:
        return f"{query} {limit} {asked_by.get()} {threading.current_thread() is threading.main_thread()}"


class Hang(Tool):
    name = "hang"
    timeout = 0.02

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append("ended")


async def test_sync_work_runs_in_a_thread_that_sees_the_contextvars() -> None:
    """R42: invoke off-loads a sync run to a thread, and contextvars are kept."""
    asked_by.set("Ada")
    assert await Search().invoke({"query": "tea"}) == "tea 3 Ada False"


async def test_arguments_are_checked_before_anything_runs() -> None:
    """R42: invoke validates against the schema; names the schema does not know are refused."""
    with pytest.raises(ToolArgumentsError) as caught:
        await Search().invoke({"limit": "many", "mood": "good"})
    assert [problem["path"] for problem in caught.value.problems] == ["query", "limit", "mood"]


async def test_names_beyond_the_schema_are_taken_when_it_says_so() -> None:
    class Open(Search):
        input_schema = {"type": "object", "additionalProperties": {"type": "integer"}}  # noqa: RUF012

        def run(self, **numbers: int) -> int:
            return sum(numbers.values())

    assert await Open().invoke({"a": 1, "b": 2}) == 3


async def test_async_work_runs_on_the_loop() -> None:
    class Where(Tool):
        name = "where"

        async def run(self) -> bool:
            return threading.current_thread() is threading.main_thread()

    assert await Where().invoke({}) is True


async def test_a_sync_run_that_returns_an_awaitable_is_awaited() -> None:
    class Later(Tool):
        name = "later"

        def run(self) -> Any:
            return asyncio.sleep(0, "done")

    assert await Later().invoke({}) == "done"


async def test_a_tool_that_takes_too_long_is_given_up_and_cancelled() -> None:
    tool = Hang()
    with pytest.raises(ToolTimeoutError, match=r"'hang' did not answer within 0\.02 s"):
        await tool.invoke({})
    assert tool.ended == ["ended"]


async def test_a_tools_own_time_out_is_not_taken_for_ours() -> None:
    class Mine(Tool):
        name = "mine"
        timeout = 10

        async def run(self) -> None:
            raise TimeoutError("the database")

    with pytest.raises(TimeoutError, match="the database") as caught:
        await Mine().invoke({})
    assert not isinstance(caught.value, ToolTimeoutError)


async def test_stop_iteration_in_a_thread_does_not_hang_the_caller() -> None:
    class Empty(Tool):
        name = "empty"

        def run(self) -> Any:
            return next(iter([]))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(Empty().invoke({}), 5)


async def test_the_context_is_given_to_those_who_ask() -> None:
    """R47: a parameter annotated ToolContext is injected, under any name and in any spelling."""

    class Asks(Tool):
        name = "asks"

        def run(self, *, about: ToolContext | None = None) -> Any:
            return about

    context = ToolContext(thread_id="t", call_id="c", idempotency_key="k", metadata={"user": 1})
    assert await Asks().invoke({}, context=context) is context
    assert await Asks().invoke({}) == ToolContext()
    with pytest.raises(ToolArgumentsError):
        await Asks().invoke({"about": {}})


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        (False, False),
        (True, True),
        (lambda arguments: arguments["amount"] > 100, True),
        (lambda arguments: arguments["amount"] > 1000, False),
        (lambda arguments: arguments["no such key"], True),
        (lambda arguments: None, True),
        (lambda: False, True),
    ],
    ids=["no", "yes", "over the limit", "under the limit", "raises", "says nothing", "takes nothing"],
)
async def test_the_approval_rule_fails_closed(rule: Any, answer: bool) -> None:
    """R48: a rule that raises or does not answer False means that a person has to agree."""
    tool = Search()
    tool.requires_approval = rule
    assert await tool.needs_approval({"amount": 500}) is answer


@pytest.mark.parametrize("answer", [True, False])
async def test_an_approval_rule_may_be_async(answer: bool) -> None:
    async def rule(arguments: dict[str, Any]) -> bool:
        return answer

    tool = Search()
    tool.requires_approval = rule
    assert await tool.needs_approval({}) is answer


async def test_an_approval_rule_cannot_change_the_arguments() -> None:
    tool = Search()
    tool.requires_approval = lambda arguments: arguments.clear() or False
    arguments = {"query": "tea"}
    await tool.needs_approval(arguments)
    assert arguments == {"query": "tea"}


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "a" * 65},
        {"name": "search files"},
        {"name": "suche_ä"},
        {"name": 7},
        {"input_schema": {"type": "string"}},
        {"timeout": 0},
    ],
)
def test_a_tool_that_no_provider_would_take_is_refused(changes: dict[str, Any]) -> None:
    """R47: names fit the narrowest provider, schemas describe an object, time-outs are positive."""
    tool = Search()
    vars(tool).update(changes)
    with pytest.raises(ToolSchemaError):
        check_tool(tool)


def test_another_name_leaves_the_tool_as_it_is() -> None:
    tool = Search()
    assert (tool.renamed("find").name, tool.name) == ("find", "search")
    with pytest.raises(ToolSchemaError):
        tool.renamed("no good name")
    assert repr(tool) == "Search('search')"
