"""LangGraph on Jianmu's engines: its own conformance suite, and a real graph that is interrupted and resumed."""

import operator
import os
from collections.abc import Callable
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from jianmu.errors import ConfigurationError
from jianmu.integrations.langgraph import JianmuSaver
from jianmu.memory import FileCheckpointer, InMemoryCheckpointer, NullCheckpointer


class Chat(TypedDict):
    messages: Annotated[list, add_messages]
    asked: Annotated[int, operator.add]


def ask(state: Chat) -> dict[str, Any]:
    return {"messages": [AIMessage(f"answer {len(state['messages'])}")], "asked": 1}


def approve(state: Chat) -> dict[str, Any]:
    decision = interrupt({"question": "send it?"})
    return {"messages": [AIMessage(f"decided: {decision}")]}


def graph(saver: JianmuSaver) -> Any:
    builder = StateGraph(Chat)
    builder.add_node("ask", ask)
    builder.add_node("approve", approve)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "approve")
    builder.add_edge("approve", END)
    return builder.compile(checkpointer=saver)


@pytest.fixture
def opened(engine) -> Callable[[], JianmuSaver]:
    return lambda: JianmuSaver(engine.open())


async def test_langgraph_s_own_conformance_suite_passes_in_full(opened):
    """Base and extended capabilities, through the asynchronous methods."""

    @checkpointer_test(name=f"jianmu {uuid4()}")
    async def saver():
        yield opened()

    report = await validate(saver)
    failures = {
        name: result.failures for name, result in report.results.items() if not (result.detected and result.passed)
    }
    assert failures == {}
    assert len(report.results) == 8


def test_a_graph_with_an_interrupt_resumes_on_a_new_saver(opened):
    config = {"configurable": {"thread_id": "t"}}
    first = graph(opened()).invoke({"messages": [HumanMessage("hello")], "asked": 0}, config)
    assert first["__interrupt__"][0].value == {"question": "send it?"}
    resumed = graph(opened())
    assert resumed.get_state(config).next == ("approve",)
    result = resumed.invoke(Command(resume="yes"), config)
    assert [message.content for message in result["messages"]] == ["hello", "answer 1", "decided: yes"]
    assert result["asked"] == 1


async def test_a_graph_runs_asynchronously(opened):
    config = {"configurable": {"thread_id": "async"}}
    running = graph(opened())
    await running.ainvoke({"messages": [HumanMessage("hello")], "asked": 0}, config)
    result = await graph(opened()).ainvoke(Command(resume="no"), config)
    assert result["messages"][-1].content == "decided: no"


def test_time_travel_to_an_older_checkpoint_branches_from_it(opened):
    config = {"configurable": {"thread_id": "t"}}
    running = graph(opened())
    running.invoke({"messages": [HumanMessage("hello")], "asked": 0}, config)
    running.invoke(Command(resume="yes"), config)
    history = list(running.get_state_history(config))
    early = next(state for state in history if state.next == ("approve",))
    branch = running.update_state(early.config, {"messages": [HumanMessage("by the way")]}, as_node="ask")
    assert [m.content for m in running.get_state(branch).values["messages"]] == ["hello", "answer 1", "by the way"]
    assert len(list(running.get_state_history(config))) == len(history) + 1
    assert running.get_state(early.config).values == early.values


def test_copies_and_prunes_leave_the_rest_readable(opened):
    saver = opened()
    config, other = {"configurable": {"thread_id": "a"}}, {"configurable": {"thread_id": "a:b"}}
    for place in (config, other):
        graph(saver).invoke({"messages": [HumanMessage("hello")], "asked": 0}, place)
    saver.copy_thread("a", "copy")
    saver.prune(["a"])
    assert len(list(saver.list(config))) == 1
    assert graph(saver).invoke(Command(resume="yes"), config)["messages"][-1].content == "decided: yes"
    copied = {"configurable": {"thread_id": "copy"}}
    assert len(list(saver.list(copied))) > 1
    assert graph(opened()).invoke(Command(resume="no"), copied)["messages"][-1].content == "decided: no"
    saver.delete_thread("a")
    assert saver.get_tuple(config) is None
    assert saver.get_tuple(other) is not None, "a thread whose name begins alike is another one"


@pytest.mark.parametrize("name", ["x' OR 1=1 --", "a:b", "a%3Ab", "../x", "用户 🙂", "*", "{}"])
def test_hostile_names_are_data(opened, name):
    saver = opened()
    checkpoint = {**empty_checkpoint(), "channel_values": {name: name}}
    config = {"configurable": {"thread_id": name, "checkpoint_ns": name}}
    stored = saver.put(config, checkpoint, {"source": name}, {})
    saver.put_writes(stored, [(name, name)], task_id=name, task_path=name)
    found = saver.get_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"] == {name: name}
    assert found.pending_writes == [(name, name, name)]
    assert [t.config for t in saver.list(None, filter={"source": name})] == [found.config]
    assert list(saver.list({"configurable": {"thread_id": "other"}}, filter={name: name})) == []


def test_a_growing_chat_costs_its_length_not_the_square_of_it(tmp_path):
    """Bytes after 200 puts are about twice those after 100."""
    from jianmu.memory import SqliteCheckpointer

    path = tmp_path / "chat.db"
    sizes: list[int] = []
    with SqliteCheckpointer(path) as store:
        saver, config, messages = JianmuSaver(store), {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, []
        for count in range(1, 401):
            messages = [*messages, {"role": "user", "content": os.urandom(100).hex()}]
            checkpoint = {**empty_checkpoint(), "channel_values": {"messages": messages}}
            config = saver.put(config, checkpoint, {"step": count}, {})
            if count in (200, 400):
                sizes.append(sum(file.stat().st_size for file in tmp_path.iterdir() if "-wal" not in file.name))
        found = saver.get_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"]["messages"] == messages
    naive = sum(len(str(messages[:count])) for count in range(400))
    assert sizes[1] < naive / 10


def test_only_checkpointers_with_history_will_do():
    JianmuSaver(InMemoryCheckpointer())
    JianmuSaver(FileCheckpointer())
    with pytest.raises(ConfigurationError, match="keeps no history"):
        JianmuSaver(NullCheckpointer())
    with pytest.raises(ConfigurationError, match="names no thread"):
        JianmuSaver(InMemoryCheckpointer()).get_tuple({"configurable": {}})
    with pytest.raises(ConfigurationError, match="unknown strategy"):
        JianmuSaver(InMemoryCheckpointer()).prune(["t"], strategy="all")
