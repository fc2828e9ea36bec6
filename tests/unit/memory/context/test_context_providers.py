"""Providers give the parts of a prompt."""

from __future__ import annotations

import inspect
import logging
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from jianmu.errors import ContextError
from jianmu.memory.context import (
    LongTermMemoryProvider,
    Segment,
    SkillTextProvider,
    Stability,
    StateHistoryProvider,
    SystemPromptProvider,
    TextProvider,
    ToolsDescProvider,
)
from jianmu.messages import Message
from jianmu.state import StateManager, append
from jianmu.tools import tool


class Chat(BaseModel):
    messages: Annotated[list[Message], append] = []
    skill_start: int = 0
    topic: str = "tea"


@pytest.fixture
def state() -> StateManager[Chat]:
    manager = StateManager(Chat)
    manager.initialize({"messages": [Message.user("one"), Message.assistant("two"), Message.user("three")]})
    return manager


async def given(provider: Any, state: Any, history: list[Message] | None = None) -> list[Segment]:
    made = provider.segments(state, history or [])
    return list(await made if inspect.isawaitable(made) else made)


def test_the_history_is_read_from_the_state(state: StateManager[Chat]) -> None:
    """R45: StateHistoryProvider reads what checkpoints bring back."""
    before = state.dump_checkpoint()
    reborn = StateManager(Chat)
    reborn.initialize(before)
    assert [message.text for message in StateHistoryProvider().history(reborn)] == ["one", "two", "three"]


def test_a_part_of_the_history_can_be_read(state: StateManager[Chat]) -> None:
    """R46: a skill sees the messages since it began."""
    state.update(skill_start=2)
    assert [message.text for message in StateHistoryProvider(since=1).history(state)] == ["two", "three"]
    assert [message.text for message in StateHistoryProvider(since="skill_start").history(state)] == ["three"]


def test_a_field_without_messages_is_an_error(state: StateManager[Chat]) -> None:
    with pytest.raises(ContextError, match="'topic' has to hold a list of messages"):
        StateHistoryProvider("topic").history(state)


async def test_texts_may_follow_the_state(state: StateManager[Chat]) -> None:
    """R46: a prompt is a text or made from the state."""
    prompt = SystemPromptProvider(lambda it: f"You know about {it.get('topic')}.")
    [segment] = await given(prompt, state)
    assert (segment.name, segment.stability, segment.priority) == ("system", Stability.FIXED, None)
    assert segment.messages == (Message.system("You know about tea."),)


async def test_an_empty_text_gives_nothing(state: StateManager[Chat]) -> None:
    assert await given(SystemPromptProvider(""), state) == []


async def test_what_changes_is_said_by_the_user_after_the_history(state: StateManager[Chat]) -> None:
    [segment] = await given(TextProvider("It is noon.", "clock", Stability.VOLATILE, 3), state)
    assert segment == Segment(
        name="clock", messages=(Message.user("It is noon."),), stability=Stability.VOLATILE, priority=3
    )
    [skill] = await given(SkillTextProvider("How to brew."), state)
    assert (skill.name, skill.stability, skill.messages[0].role) == ("skill", Stability.SESSION, "system")


async def test_tools_are_described_in_the_order_of_their_names(state: StateManager[Chat]) -> None:
    """R46: ToolsDescProvider is for models without native tools."""

    @tool
    def brew(grams: int) -> None:
        """Brew tea."""

    provider = ToolsDescProvider([brew.renamed("pour"), brew], heading="Tools:")
    [segment] = await given(provider, state)
    schema = (
        '{"additionalProperties":false,"properties":{"grams":{"type":"integer"}},"required":["grams"],"type":"object"}'
    )
    lines = [f"{name}: Brew tea.\nArguments: {schema}" for name in ("brew", "pour")]
    assert segment.messages[0].text == "\n\n".join(["Tools:", *lines])
    assert await given(ToolsDescProvider([]), state) == []


class Shelf:
    """A memory that tells what it was asked."""

    def __init__(self, *items: str, broken: bool = False) -> None:
        self.items = list(items)
        self.broken = broken
        self.asked: list[Any] = []

    def record(self, inputs: Any, *, namespace: Any = None, **options: Any) -> Any:
        raise NotImplementedError

    def retrieve(self, query: str, *, limit: int = 5, namespace: Any = None, **options: Any) -> Any:
        self.asked.append((query, limit, namespace))
        if self.broken:
            raise OSError("no disk")
        return [{"id": item, "content": item, "metadata": {}, "score": None} for item in self.items[:limit]]

    def format_retrieved(self, retrieved: Any, **options: Any) -> str:
        return ", ".join(item["content"] for item in retrieved)


TALK = [
    Message.user("What tea?"),
    Message.assistant("Which?"),
    Message.user("What do I like?"),
    Message.assistant("Hm"),
]


async def test_memory_is_asked_with_the_last_users_words(state: StateManager[Chat]) -> None:
    """R46: LongTermMemoryProvider is opt-in and gives a part that may be left out, after the history."""
    shelf = Shelf("green tea", "no milk", "more")
    provider = LongTermMemoryProvider(memory=shelf, namespace=("me",), limit=2, heading="Notes:")
    [segment] = await given(provider, state, TALK)
    assert shelf.asked == [("What do I like?", 2, ("me",))]
    assert segment.messages == (Message.user("Notes:\ngreen tea, no milk"),)
    assert (segment.stability, segment.priority) == (Stability.VOLATILE, 0)


async def test_the_query_can_be_made_otherwise(state: StateManager[Chat]) -> None:
    shelf = Shelf("x")
    await given(LongTermMemoryProvider(memory=shelf, query=lambda history: f"{len(history)} messages"), state, TALK)
    assert shelf.asked == [("4 messages", 5, None)]


async def test_no_question_and_no_memory_give_nothing(state: StateManager[Chat]) -> None:
    shelf = Shelf()
    assert await given(LongTermMemoryProvider(memory=shelf), state, TALK) == []
    assert await given(LongTermMemoryProvider(memory=shelf), state, []) == []
    assert len(shelf.asked) == 1


async def test_a_memory_that_fails_is_logged_and_left_out(
    state: StateManager[Chat], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "jianmu.context"):
        assert await given(LongTermMemoryProvider(memory=Shelf(broken=True)), state, TALK) == []
    assert "long-term memory could not be read" in caplog.text
    assert "no disk" in caplog.text
