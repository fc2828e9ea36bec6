"""ContextBuilder: order, budget, ladder, summaries, calibration."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from jianmu.errors import ConfigurationError, ContextOverBudgetError, UnknownToolError
from jianmu.memory.context import (
    BuiltContext,
    ContextBuilder,
    LongTermMemoryProvider,
    RoleFilter,
    Stability,
    TextProvider,
    TokenBudget,
    common_prefix,
    make_summary,
)
from jianmu.memory.long_term.simple_store import SimpleStore
from jianmu.messages import Message, ToolCall
from jianmu.state import StateManager, append
from jianmu.tools import ToolSet, tool


class Chat(BaseModel):
    messages: Annotated[list[Message], append] = []
    start: int = 0


class Characters:
    """Four characters are a token: easy to reckon with."""

    def count(self, text: str) -> int:
        return len(text) // 4


@tool
def find(query: str) -> str:
    """Find something."""
    return query


@tool
def buy(item: str) -> str:
    """Buy something."""
    return item


def holding(messages: list[Message], **fields: Any) -> StateManager[Chat]:
    state = StateManager(Chat)
    state.initialize({"messages": messages, **fields})
    return state


def turns(count: int, rounds: int = 1, size: int = 400) -> list[Message]:
    """Questions, each answered after some rounds of a call with a result of ``size`` characters."""
    messages: list[Message] = []
    for turn in range(count):
        messages.append(Message.user(f"question {turn}"))
        for number in range(rounds):
            call = ToolCall(id=f"c{number}", name="find", arguments={"query": f"{turn}.{number}"})
            messages += [Message.assistant("", [call]), Message.tool_result(call.id, f"{turn}.{number} " + "x" * size)]
        messages.append(Message.assistant(f"answer {turn}"))
    return messages


def texts(built: BuiltContext) -> list[str]:
    return [message.text for message in built.messages]


def builder(**options: Any) -> ContextBuilder:
    return ContextBuilder.for_react("You are kind.", counter=Characters(), **options)


class TestOrder:
    async def test_parts_stand_by_how_long_they_stay_the_same(self) -> None:
        """R46: tools, system, stable parts, history, volatile parts."""
        providers = [
            TextProvider("It is noon.", "clock", Stability.VOLATILE),
            TextProvider("Skill: brewing.", "skill", Stability.SESSION),
            TextProvider("Rules.", "rules", Stability.FIXED),
        ]
        built = await builder(tools=[find, buy], providers=providers).build(holding([Message.user("hello")]))
        assert texts(built) == ["You are kind.\n\nRules.\n\nSkill: brewing.", "hello", "It is noon."]
        assert [message.role for message in built.messages] == ["system", "user", "user"]
        assert built.tools.names == ["buy", "find"]

    async def test_system_messages_of_the_history_join_the_one_that_leads(self) -> None:
        blocks = [{"type": "text", "text": "From the history."}]
        built = await builder().build(holding([Message.system(blocks), Message.user("hello")]))
        assert built.messages[0].content == [{"type": "text", "text": "You are kind."}, *blocks]
        assert texts(built)[1:] == ["hello"]

    async def test_a_model_without_native_tools_reads_of_them(self) -> None:
        """R46: for_react describes tools in words only when the model has no native tools."""
        native = await builder(tools=[find]).build(holding([]))
        told = await builder(tools=[find], native_tools=False).build(holding([]))
        assert (native.tools.names, told.tools.names) == (["find"], [])
        assert "find: Find something." not in native.messages[0].text
        assert told.messages[0].text.startswith("You are kind.\n\nYou can use these tools.")
        assert "find: Find something." in told.messages[0].text

    async def test_a_skill_has_its_text_its_tools_and_its_part_of_the_history(self) -> None:
        """R46: for_skill narrows tools and history."""
        made = ContextBuilder.for_skill(
            "How to shop.", [find, buy], names=["buy"], system="You are kind.", since="start"
        )
        built = await made.build(holding([Message.user("before"), Message.user("buy tea")], start=1))
        assert texts(built) == ["You are kind.\n\nHow to shop.", "buy tea"]
        assert built.tools.names == ["buy"]
        with pytest.raises(UnknownToolError):
            ContextBuilder.for_skill("x", ToolSet([find]), names=["bye"])
        told = await ContextBuilder.for_skill("x", [find, buy], names=["buy"], native_tools=False).build(holding([]))
        assert "buy:" in told.messages[0].text
        assert "find:" not in told.messages[0].text

    async def test_memory_enters_only_when_asked_for(self, tmp_path: Any) -> None:
        """R46: by default long-term memory enters through the model's own memory_search calls only."""
        store = SimpleStore(tmp_path / "store.json")
        store.record("The user likes tea", namespace=("me",), key="k")
        state = holding([Message.user("What tea?")])
        assert texts(await builder().build(state)) == ["You are kind.", "What tea?"]
        opted = builder(providers=[LongTermMemoryProvider(memory=store, namespace=("me",))])
        assert "The user likes tea" in texts(await opted.build(state))[-1]


class TestRepair:
    async def test_a_broken_history_is_mended_in_the_prompt_only(self) -> None:
        """R45: the stored history is never changed."""
        state = holding([Message.user("q"), Message.assistant("", [ToolCall(id="a", name="find")])])
        before = state.dump_checkpoint()
        built = await builder().build(state)
        assert built.messages[-1].metadata["error_type"] == "interrupted"
        waiting = await builder().build(state, pending=["a"])
        assert waiting.messages[-1].role == "assistant"
        assert state.dump_checkpoint() == before


class TestLadder:
    async def test_what_fits_is_left_as_it_is(self) -> None:
        history = turns(20)
        built = await builder(budget=TokenBudget(limit=100_000)).build(holding(history))
        assert list(built.messages[1:]) == history
        assert (built.report.dropped, built.report.cleared) == (0, 0)
        assert built.tokens == sum(built.report.tokens.values())

    async def test_old_tool_results_are_cleared_first(self) -> None:
        """R46: first rung: old tool results."""
        history = turns(10)
        built = await builder(budget=TokenBudget(limit=1_000, reserve=0)).build(holding(history))
        assert len(built.messages) == 1 + len(history)
        assert built.report.dropped == 0
        results = [message.text for message in built.messages if message.role == "tool"]
        assert 10 - built.report.cleared == sum(text.endswith("xxx") for text in results)
        assert 3 <= 10 - built.report.cleared <= 6
        assert all(text.endswith("xxx") for text in results[-3:])

    async def test_then_the_oldest_groups_go(self) -> None:
        """R46: second rung: a window of whole groups that begins with a user's message."""
        built = await builder(budget=TokenBudget(limit=600, reserve=0)).build(holding(turns(40)))
        assert built.report.dropped > 0
        assert built.messages[1].role == "user"
        assert built.messages[-1].text == "answer 39"
        assert built.tokens <= 600

    async def test_a_long_turn_keeps_the_question_it_answers(self) -> None:
        """R46: the last user group is never cut, also when the work on it is long."""
        history = turns(3) + turns(1, rounds=40)[:-1]
        built = await builder(budget=TokenBudget(limit=600, reserve=0)).build(holding(history))
        assert built.messages[1].text == "question 0"
        assert built.messages[-1] == history[-1]
        assert built.report.dropped > 20

    async def test_a_prompt_that_cannot_fit_is_an_error_that_tells_the_sizes(self) -> None:
        """R46: over budget even at its minimum is a clear error."""
        made = builder(tools=[find], budget=TokenBudget(limit=200, reserve=0))
        with pytest.raises(ContextOverBudgetError) as caught:
            await made.build(holding([Message.user("x" * 1_000)]))
        assert "the budget leaves 200" in str(caught.value)
        assert "last user's message and newest group 254" in str(caught.value)
        assert "tools" in str(caught.value)
        assert "system 7" in str(caught.value)

    async def test_optional_parts_go_by_priority_before_the_history_is_lost(self) -> None:
        """R46: segments have a priority."""
        extras = [
            TextProvider("a" * 400, "low", Stability.SESSION, priority=1),
            TextProvider("b" * 400, "high", Stability.VOLATILE, priority=2),
            TextProvider("c" * 40, "must", Stability.SESSION),
        ]
        state = holding([Message.user("q" * 400)])
        omitted = {
            limit: (
                await builder(providers=extras, budget=TokenBudget(limit=limit, reserve=0)).build(state)
            ).report.omitted
            for limit in (400, 300, 200)
        }
        assert omitted == {400: (), 300: ("low",), 200: ("low", "high")}

    async def test_the_budget_leaves_room_for_tools_and_answer(self) -> None:
        """R46: the budget counts tool schemas and a reserve."""
        history = turns(40)
        plain = await builder(budget=TokenBudget(limit=900, reserve=0)).build(holding(history))
        with_tools = await builder(tools=[find, buy], budget=TokenBudget(limit=900, reserve=0)).build(holding(history))
        reserved = await builder(budget=TokenBudget(limit=900, reserve=400)).build(holding(history))
        assert with_tools.report.tokens["tools"] > 50
        assert with_tools.tokens <= 900
        assert reserved.tokens <= 500
        assert len(reserved.messages) < len(plain.messages)

    async def test_a_number_is_a_budget_and_none_is_no_limit(self) -> None:
        assert builder(budget=80_000).budget == TokenBudget(limit=80_000)
        built = await builder().build(holding(turns(200)))
        assert (len(built.messages), built.report.available) == (801, None)

    async def test_filters_come_before_the_budget(self) -> None:
        built = await builder(filters=[RoleFilter({"tool"})]).build(holding(turns(2)))
        assert texts(built)[1:] == ["question 0", "answer 0", "question 1", "answer 1"]

    async def test_an_empty_history_is_a_prompt_too(self) -> None:
        assert texts(await builder(budget=1_000).build(holding([]))) == ["You are kind."]


class TestCache:
    async def test_a_growing_history_keeps_its_beginning_for_many_requests(self) -> None:
        """R46: what is cut is cut in steps, so that prompt caches hold between the steps."""
        history = turns(180)
        shares: dict[float, float] = {}
        breaks: dict[float, float] = {}
        for low_water in (0.6, 1.0):
            made = builder(budget=TokenBudget(limit=4_000, reserve=0), low_water=low_water)
            builds = [await made.build(holding(history[:end])) for end in range(320, len(history), 4)]
            common = [common_prefix(before, after) for before, after in pairwise(builds)]
            shares[low_water] = sum(it.share for it in common) / len(common)
            breaks[low_water] = sum(it.messages <= 1 for it in common) / len(common)
            assert max(built.tokens for built in builds) <= 4_000
        assert shares[0.6] > 0.8 > 0.3 > shares[1.0]
        assert breaks[0.6] < 0.15 < 0.8 < breaks[1.0]

    async def test_two_builds_tell_how_far_they_begin_alike(self) -> None:
        """R46: report of the longest common prefix of two builds."""
        made = builder(tools=[find])
        history = turns(3)
        one, two = await made.build(holding(history)), await made.build(holding([*history, Message.user("next")]))
        same = common_prefix(one, two)
        assert same.messages == len(one.messages)
        assert 0.9 < same.share < 1
        assert common_prefix(one, one).share == 1
        other = await builder(tools=[buy]).build(holding(history))
        assert common_prefix(one, other).messages == 0
        assert 0 < common_prefix(one, other).share < 0.2
        changed = await made.build(holding([Message.user("question X"), *history[1:]]))
        assert common_prefix(one, changed).messages == 1
        assert common_prefix(one, changed).characters > common_prefix(one, other).characters

    async def test_a_restart_builds_the_same_prompt(self) -> None:
        """R46: builds follow from the state alone."""
        history = turns(80)
        made = builder(budget=TokenBudget(limit=2_000, reserve=0))
        for end in range(4, len(history), 12):
            await made.build(holding(history[:end]))
        fresh = await builder(budget=TokenBudget(limit=2_000, reserve=0)).build(holding(history))
        assert (await made.build(holding(history))).messages == fresh.messages


class TestSummary:
    def summarising(self, hook: Any, limit: int = 800) -> ContextBuilder:
        return builder(budget=TokenBudget(limit=limit, reserve=0), summarise=hook)

    async def test_a_summary_takes_the_place_of_what_no_longer_fits(self) -> None:
        """R46: third rung: a summary, which the caller stores through a reducer."""
        seen: list[list[Message]] = []

        async def summarise(messages: list[Message]) -> str:
            seen.append(messages)
            return f"{len(messages)} messages about tea"

        state = holding(turns(40))
        made = self.summarising(summarise)
        first = await made.build(state)
        assert first.report.summary == "made"
        assert first.summary is not None
        assert (
            texts(first)[1]
            == first.summary.text
            == f"[Summary of the conversation so far]\n{len(seen[0])} messages about tea"
        )
        assert texts(first)[2].startswith("question ")
        assert [message.text for message in seen[0][:1]] == ["question 0"]

        state.update(messages=first.summary)
        again = await made.build(state)
        assert (again.report.summary, again.summary, len(seen)) == ("stored", None, 1)
        assert again.messages == first.messages

        state.update(messages=turns(20))
        later = await made.build(state)
        assert later.report.summary == "made"
        assert seen[1][0] == first.summary
        assert len(state.get("messages")) == 60 * 4 + 1

    async def test_a_resumed_process_needs_no_second_summary(self) -> None:
        """R45: a stored summary comes back with the checkpoint."""
        state = holding(turns(40))
        built = await self.summarising(lambda messages: "all about tea").build(state)
        state.update(messages=built.summary)
        reborn = StateManager(Chat)
        reborn.initialize(state.dump_checkpoint())
        resumed = await self.summarising(None).build(reborn)
        assert resumed.messages == built.messages
        assert resumed.report.summary == "stored"

    async def test_a_hook_that_keeps_failing_is_left_alone(self) -> None:
        """R46: circuit breaker."""
        asked: list[int] = []

        def broken(messages: list[Message]) -> str:
            asked.append(len(messages))
            if len(asked) == 2:
                return ""
            raise ConnectionError("no model")

        made, state = self.summarising(broken), holding(turns(40))
        built = [await made.build(state) for _ in range(5)]
        assert [it.report.summary for it in built] == ["failed", "failed", "failed", "off", "off"]
        assert len(asked) == 3
        assert all(it.messages == built[0].messages and it.tokens <= 800 for it in built)
        assert made.summariser is not None
        made.summariser.reset()
        assert (await made.build(state)).report.summary == "failed"

    async def test_a_success_closes_the_breaker_again(self) -> None:
        answers = iter([RuntimeError("a"), RuntimeError("b"), "fine", RuntimeError("c"), RuntimeError("d"), "fine"])

        def shaky(messages: list[Message]) -> str:
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        made, state = self.summarising(shaky), holding(turns(40))
        statuses = [(await made.build(state)).report.summary for _ in range(6)]
        assert statuses == ["failed", "failed", "made"] * 2

    async def test_cancelling_a_summary_is_no_failure(self) -> None:
        begun = asyncio.Event()

        async def slow(messages: list[Message]) -> str:
            begun.set()
            await asyncio.Event().wait()
            return ""

        made = self.summarising(slow)
        running = asyncio.create_task(made.build(holding(turns(40))))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert made.summariser is not None
        assert made.summariser.failures == 0

    async def test_a_summary_that_is_too_long_is_left_out(self) -> None:
        built = await self.summarising(lambda messages: "x" * 4_000).build(holding(turns(40)))
        assert built.report.omitted == ("summary",)
        assert built.tokens <= 800

    async def test_a_summary_never_hides_the_last_question(self) -> None:
        """R46: the last user group stays even where a summary covers it."""
        history = turns(1, rounds=6)
        history.append(make_summary("so far", covers=6))
        built = await builder().build(holding(history))
        assert texts(built)[1:3] == ["[Summary of the conversation so far]\nso far", "question 0"]
        assert built.messages[3].tool_calls[0].arguments == {"query": "0.3"}


class TestCalibration:
    async def test_reported_tokens_correct_the_next_builds(self) -> None:
        """R46: calibration by the provider's reported input tokens."""
        made, state = builder(budget=TokenBudget(limit=2_000, reserve=0)), holding(turns(40))
        first = await made.build(state)
        made.calibrate(first, 2 * first.tokens)
        assert made.calibration.factor == pytest.approx(2, rel=0.01)
        second = await made.build(state)
        assert second.tokens <= 2_000
        assert len(second.messages) < len(first.messages)
        assert second.report.factor == made.calibration.factor
        made.calibrate(second, second.tokens)
        assert made.calibration.factor == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("options", [{"keep_results": 0}, {"low_water": 0}, {"low_water": 1.5}])
def test_settings_out_of_range_are_errors(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="keep_results"):
        builder(**options)


def test_unknown_settings_are_errors() -> None:
    with pytest.raises(TypeError, match="bugdet"):
        builder(bugdet=5)


async def test_a_built_context_is_shown_in_one_line() -> None:
    built = await builder(tools=[find]).build(holding(turns(100)))
    assert repr(built) == f"BuiltContext(401 messages, 1 tools, {built.tokens} tokens)"
