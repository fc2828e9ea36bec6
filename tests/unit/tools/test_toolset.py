"""A set of tools: unique names, fixed order, and calls that are always answered."""

from __future__ import annotations

import asyncio
import contextvars
import json
from typing import Any

import pytest

from jianmu.errors import ConfigurationError, ToolSchemaError, UnknownToolError
from jianmu.events import ListSink, RuntimeEventBus, scope
from jianmu.messages import ToolCall
from jianmu.tools import Tool, ToolContext, ToolSet, tool


@tool
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@tool
async def fail(text: str = "no") -> None:
    """Fail."""
    raise ValueError(text)


@tool
def weather(city: str) -> dict[str, Any]:
    """Tell the weather."""
    return {"wind": 3, "city": city}


def call(name: str, call_id: str = "c1", /, **arguments: Any) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


async def error_of(tools: ToolSet, wanted: ToolCall, **options: Any) -> dict[str, Any]:
    [result] = await tools.execute([wanted], **options)
    error = json.loads(result.text)["error"]
    assert result.metadata == {"is_error": True, "error_type": error["type"]}
    assert (result.role, result.tool_call_id, result.name) == ("tool", wanted.id, wanted.name)
    return error


class TestTheSet:
    def test_tools_stand_in_the_order_of_their_names(self) -> None:
        """R47: the order does not depend on how the set was filled."""
        sets = [ToolSet([weather, double, fail]), ToolSet([fail, weather, double]), ToolSet([weather])]
        sets[2].add(fail, double)
        assert [made.names for made in sets] == [["double", "fail", "weather"]] * 3
        assert [[it.name for it in made] for made in sets] == [made.names for made in sets]

    def test_a_name_twice_is_an_error_and_nothing_is_added(self) -> None:
        """R47: duplicate names are errors."""
        tools = ToolSet([double])
        with pytest.raises(ToolSchemaError, match="two tools named 'double'"):
            tools.add(weather, double)
        assert tools.names == ["double"]

    def test_an_unknown_name_is_met_with_similar_ones(self) -> None:
        """R47: near names are suggested."""
        tools = ToolSet([double, fail, weather])
        assert tools.get("double") is double
        with pytest.raises(UnknownToolError, match=r"no tool named 'get_Weather'; did you mean 'weather'\?"):
            tools.get("get_Weather")
        with pytest.raises(UnknownToolError, match="there are: double, fail, weather"):
            tools.get("zzz")

    def test_sets_are_made_from_sets(self) -> None:
        """R47: merge, subset, filter and prefix give new sets and leave the old ones as they are."""
        tools = ToolSet([double, weather], max_consecutive_errors=2, max_result_chars=9)
        assert tools.merge([fail]).names == ["double", "fail", "weather"]
        assert tools.subset(["weather", "weather"]).names == ["weather"]
        assert tools.filtered(lambda it: it.name < "e").names == ["double"]
        prefixed = tools.prefixed("my_")
        assert prefixed.names == ["my_double", "my_weather"]
        assert (prefixed.max_consecutive_errors, prefixed.max_result_chars) == (2, 9)
        assert (tools.names, double.name) == (["double", "weather"], "double")
        with pytest.raises(ToolSchemaError):
            tools.merge(ToolSet([fail]), [double])
        with pytest.raises(UnknownToolError):
            tools.subset(["wether"])

    def test_it_is_a_collection(self) -> None:
        tools = ToolSet([double])
        assert "double" in tools
        assert double in tools
        assert "fail" not in tools
        assert fail not in tools
        assert (len(tools), len(ToolSet()), repr(tools)) == (1, 0, "ToolSet(double)")

    @pytest.mark.parametrize("limits", [{"max_consecutive_errors": 0}, {"max_result_chars": 0}])
    def test_a_limit_below_one_is_an_error(self, limits: dict[str, int]) -> None:
        with pytest.raises(ConfigurationError, match=next(iter(limits))):
            ToolSet(**limits)


class TestAnswers:
    async def test_a_result_is_text_as_it_is_or_canonical_json(self) -> None:
        """R47: results become text by one rule."""
        results = await ToolSet([double, weather]).execute([call("weather", city="上海"), call("double", number=4)])
        assert [result.text for result in results] == ['{"city":"上海","wind":3}', "8"]
        assert not any(result.metadata for result in results)

    async def test_an_unknown_tool_is_told_with_similar_names(self) -> None:
        """R47: errors are data for the model."""
        error = await error_of(ToolSet([double, weather]), call("weathr"))
        assert (error["type"], error["similar"]) == ("unknown_tool", ["weather"])

    async def test_arguments_that_are_no_json_are_shown_again(self) -> None:
        """R47: raw_arguments tells that the model sent no JSON object."""
        error = await error_of(ToolSet([double]), ToolCall(name="double", raw_arguments="{number: 4" + "x" * 500))
        assert error["type"] == "invalid_json"
        assert error["received"].startswith("{number: 4xxx")
        assert len(error["received"]) < 300

    async def test_arguments_that_do_not_fit_are_told_by_path(self) -> None:
        """R47: path, message and received of each problem."""
        error = await error_of(ToolSet([double]), call("double", number="many"))
        assert error["type"] == "invalid_arguments"
        assert [(it["path"], it["received"]) for it in error["problems"]] == [("number", "many")]

    async def test_an_exception_is_told_by_type_and_text(self) -> None:
        """R47: exception type and text."""
        error = await error_of(ToolSet([fail]), call("fail", text="no money"))
        assert (error["type"], error["exception"], error["message"]) == ("exception", "ValueError", "no money")

    async def test_a_time_out_is_told(self) -> None:
        """R47: a tool that does not answer in time is an answer too."""

        @tool(timeout=0.01)
        async def hang() -> None:
            await asyncio.Event().wait()

        error = await error_of(ToolSet([hang]), call("hang"))
        assert (error["type"], "0.01 s" in error["message"]) == ("timeout", True)

    async def test_a_tool_that_cancels_itself_does_not_cancel_the_run(self) -> None:
        @tool
        async def give_up() -> None:
            raise asyncio.CancelledError

        assert (await error_of(ToolSet([give_up]), call("give_up")))["type"] == "exception"
        results = await ToolSet([give_up, double]).execute([call("give_up"), call("double", number=1)])
        assert results[1].text == "2"

    async def test_long_results_are_cut_and_say_so(self) -> None:
        """R47: size limit on results; the tool's own goes first."""

        @tool(max_result_chars=5)
        def short() -> str:
            return "0123456789"

        @tool
        def other() -> str:
            return "0123456789"

        results = await ToolSet([short, other], max_result_chars=7).execute([call("short"), call("other")])
        assert results[0].text == "01234\n[cut: the first 5 of 10 characters]"
        assert results[1].text == "0123456\n[cut: the first 7 of 10 characters]"


class TestOrder:
    async def test_calls_run_side_by_side_and_results_keep_the_order(self) -> None:
        """R47: parallel calls keep the order of results."""
        both = asyncio.Barrier(2)

        @tool
        async def meet(name: str, last: bool) -> str:
            await both.wait()
            if not last:
                await asyncio.sleep(0.01)
            return name

        calls = [call("meet", "1", name="a", last=False), call("meet", "2", name="b", last=True)]
        results = await asyncio.wait_for(ToolSet([meet]).execute(calls), 5)
        assert [(result.tool_call_id, result.text) for result in results] == [("1", "a"), ("2", "b")]

    async def test_a_sequential_tool_runs_alone(self) -> None:
        """R47: what comes before it has ended, what comes after has not begun."""
        log: list[str] = []

        async def logged(name: str) -> None:
            log.append(f"{name} begins")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            log.append(f"{name} ends")

        beside = tool(name="beside")(logged)
        alone = tool(name="alone", sequential=True)(logged)
        names = [("beside", "a"), ("beside", "b"), ("alone", "c"), ("alone", "d"), ("beside", "e")]
        await ToolSet([beside, alone]).execute([call(it, name=name) for it, name in names])
        assert log[:4] == ["a begins", "b begins", "a ends", "b ends"]
        assert log[4:] == ["c begins", "c ends", "d begins", "d ends", "e begins", "e ends"]

    async def test_cancelling_the_caller_ends_every_call(self) -> None:
        """R47: cancellation passes through and leaves no task running."""
        begun, ended = asyncio.Semaphore(0), []

        @tool
        async def wait(name: str) -> None:
            begun.release()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(name)

        before = asyncio.all_tasks()
        running = asyncio.create_task(ToolSet([wait]).execute([call("wait", name=name) for name in "abc"]))
        for _ in range(3):
            await begun.acquire()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert sorted(ended) == ["a", "b", "c"]
        assert asyncio.all_tasks() == before

    async def test_a_call_runs_in_the_contextvars_of_the_caller(self) -> None:
        who: contextvars.ContextVar[str] = contextvars.ContextVar("who")

        @tool
        def ask() -> str:
            return who.get()

        who.set("Ada")
        results = await ToolSet([ask]).execute([call("ask"), call("ask")])
        assert [result.text for result in results] == ["Ada", "Ada"]

    async def test_no_calls_give_no_results(self) -> None:
        assert await ToolSet().execute([]) == []


class TestContext:
    async def test_each_call_knows_its_id_and_its_key(self) -> None:
        """R47: call id and idempotency key are the call's own, the rest is the caller's."""
        seen: list[ToolContext] = []

        @tool
        def note(context: ToolContext) -> None:
            seen.append(context)

        tools = ToolSet([note])
        given = ToolContext(thread_id="t", idempotency_key="t/root/3", metadata={"user": 7})
        await tools.execute([call("note", "a"), call("note", "a")], context=given)
        await tools.execute([call("note", "b")])
        await tools.execute_call(call("note", "c"), context=given)
        seen.sort(key=lambda it: (it.call_id or "", it.idempotency_key or ""))
        assert [(it.call_id, it.idempotency_key) for it in seen] == [
            ("a", "t/root/3/0"),
            ("a", "t/root/3/1"),
            ("b", None),
            ("c", "t/root/3"),
        ]
        assert (seen[0].thread_id, seen[0].metadata) == ("t", {"user": 7})


class TestApproval:
    def tools(self) -> tuple[ToolSet, list[int]]:
        paid: list[int] = []

        @tool(requires_approval=lambda arguments: arguments["amount"] > 100)
        def pay(amount: int) -> str:
            paid.append(amount)
            return "paid"

        return ToolSet([pay, double]), paid

    async def test_a_call_that_nobody_agreed_to_is_refused(self) -> None:
        """R48: approval fails closed."""
        tools, paid = self.tools()
        calls = [call("pay", "1", amount=50), call("pay", "2", amount=500), call("pay", "3", amount=600)]
        results = await tools.execute(calls, approved=["3"])
        assert [result.metadata.get("error_type") for result in results] == [None, "not_approved", None]
        assert sorted(paid) == [50, 600]
        assert tools.errors == {}

    async def test_an_id_that_two_calls_share_approves_neither(self) -> None:
        """R48: a model cannot slip a second call in under an approved id."""
        tools, paid = self.tools()
        calls = [call("pay", "1", amount=200), call("pay", "1", amount=9_000)]
        results = await tools.execute(calls, approved=["1"])
        assert [result.metadata.get("error_type") for result in results] == ["not_approved"] * 2
        assert paid == []

    async def test_the_calls_to_ask_about_are_found_beforehand(self) -> None:
        """R48: only calls that could run are put before a person."""
        tools, _ = self.tools()
        calls = [
            call("pay", "1", amount=50),
            call("pay", "2", amount=500),
            call("pay", "3", amount="much"),
            call("unknown", "4"),
            ToolCall(id="5", name="pay", raw_arguments="{"),
            call("double", "6", number=1),
        ]
        assert [it.id for it in await tools.awaiting_approval(calls)] == ["2"]


class TestErrorLimit:
    async def test_a_tool_that_keeps_failing_is_switched_off(self) -> None:
        """R47: consecutive errors are counted per tool, with a limit."""
        tools = ToolSet([fail, double], max_consecutive_errors=2)
        kinds = [(await error_of(tools, call("fail")))["type"] for _ in range(3)]
        assert kinds == ["exception", "exception", "too_many_errors"]
        assert tools.errors == {"fail": 2}
        assert (await tools.execute([call("double", number=1)]))[0].text == "2"
        tools.reset_errors("fail")
        assert (await error_of(tools, call("fail")))["type"] == "exception"
        tools.reset_errors()
        assert tools.errors == {}

    async def test_a_success_starts_the_count_again(self) -> None:
        """R47: consecutive means without a success between them."""
        tools = ToolSet([double], max_consecutive_errors=2)
        wrong = [call("double"), ToolCall(name="double", raw_arguments="4")]
        for bad in wrong * 3:
            await error_of(tools, bad)
            assert tools.errors == {"double": 1}
            await tools.execute([call("double", number=1)])
            assert tools.errors == {}

    async def test_failures_are_counted_in_the_order_of_the_calls(self) -> None:
        """R47: which of two calls ended first makes no difference."""
        failed = asyncio.Event()

        @tool
        async def maybe(good: bool) -> None:
            if good:
                await failed.wait()
                return
            failed.set()
            raise ValueError

        tools = ToolSet([maybe])
        await tools.execute([call("maybe", good=True), call("maybe", good=False)])
        assert tools.errors == {"maybe": 1}
        await tools.execute([call("maybe", good=False), call("maybe", good=True)])
        assert tools.errors == {}

    async def test_none_never_stops(self) -> None:
        tools = ToolSet([fail], max_consecutive_errors=None)
        assert {(await error_of(tools, call("fail")))["type"] for _ in range(20)} == {"exception"}


class TestEvents:
    async def test_each_call_is_told_on_the_bus(self) -> None:
        """R29: tool.started, tool.finished and tool.failed tell what was called and how it ended."""
        bus, seen = RuntimeEventBus(), ListSink()
        bus.attach(seen, types=["tool.*"])
        tools = ToolSet([double, fail])
        with scope(bus=bus):
            for wanted in (call("double", "1", number=4), call("fail", "2"), call("nothing", "3")):
                await tools.execute([wanted])
        bus.flush()
        told = [(event.type, event.payload["tool"], event.payload["call_id"]) for event in seen.events]
        assert told == [
            ("tool.started", "double", "1"),
            ("tool.finished", "double", "1"),
            ("tool.started", "fail", "2"),
            ("tool.failed", "fail", "2"),
            ("tool.failed", "nothing", "3"),
        ]
        assert seen.events[0].payload["arguments"] == {"number": 4}
        assert seen.events[1].payload["chars"] == 1
        assert seen.events[1].payload["seconds"] >= 0
        assert [event.payload["error"] for event in seen.events[3:]] == ["ValueError: no", "unknown_tool"]


async def test_a_tool_class_and_a_function_are_called_alike() -> None:
    class Triple(Tool):
        name = "triple"
        description = "Triple a number."
        input_schema = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}  # noqa: RUF012

        def run(self, number: int) -> int:
            return 3 * number

    calls = [call("triple", number=2), call("double", number=2), call("triple", number="2")]
    results = await ToolSet([Triple(), double]).execute(calls)
    assert [result.text for result in results[:2]] == ["6", "4"]
    assert results[2].metadata["error_type"] == "invalid_arguments"
