"""The ReAct agent: what it says, what it calls, whom it asks, and what a crash leaves of it."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py_trees.common import Status

from jianmu import ContextBuilder, Message, ReactiveRunner, RuntimeEventBus, StateManager, Tool, ToolCall, ToolSet, tool
from jianmu.agents import ReactState, react_agent
from jianmu.errors import EffectInDoubtError, ModelError
from jianmu.events import ListSink
from jianmu.memory import InMemoryCheckpointer
from jianmu.runtime import RunResult, SuspensionMode, record_decision, verify_restorable
from jianmu.testing import FunctionModel, OutsideWorld, ScriptedModel, crash_everywhere
from jianmu.tools import ToolContext

ASK = {"messages": [Message.user("go")]}


def call(name: str, call_id: str = "c", **arguments: Any) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


def by_turn(*answers: Any) -> FunctionModel:
    """A model whose answer depends on the conversation alone, as a resumed run needs it."""
    return FunctionModel(lambda request: answers[sum(m.role == "assistant" for m in request.messages)])


@tool
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@tool(effect="write", requires_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


class Agent:
    """An agent and everything around it."""

    def __init__(self, model: Any, tools: Any = (), **options: Any) -> None:
        self.state = StateManager(ReactState)
        self.heard, events = ListSink(), RuntimeEventBus()
        events.attach(self.heard)
        self.runner = ReactiveRunner(react_agent(model, tools, **options), self.state, events=events)

    async def run(self, data: Any = ASK, **options: Any) -> RunResult:
        return await self.runner.run(data, **options)

    async def run_and_decide(self, decide: Any, **options: Any) -> RunResult:
        """Run, and let a person decide each request as soon as it is open."""
        task = asyncio.create_task(self.run(**options))
        while not task.done():
            for request in self.runner.pending_requests:
                decide(request)
            await asyncio.sleep(0.001)
        return await task

    @property
    def results(self) -> list[str]:
        return [message.text for message in self.state.get("messages") if message.role == "tool"]

    @property
    def answer(self) -> str:
        return self.state.get("answer")


# -- thinking and acting -----------------------------------------------------------------------------------------


async def test_an_answer_without_calls_ends_the_run():
    model = ScriptedModel(["good day"])
    agent = Agent(model, [double], system_prompt="be kind")
    assert await agent.run() == Status.SUCCESS
    assert agent.answer == "good day"
    assert [message.role for message in agent.state.get("messages")] == ["user", "assistant"]
    assert [message.role for message in model.requests[0].messages] == ["system", "user"]
    assert model.requests[0].tools.names == ["double"]


async def test_results_stand_in_the_order_of_the_calls_whichever_ends_first():
    slow_may_end, running = asyncio.Event(), []

    @tool
    async def slow() -> str:
        running.append("slow")
        await slow_may_end.wait()
        return "slow"

    @tool
    async def quick() -> str:
        running.append("quick")
        slow_may_end.set()
        return "quick"

    agent = Agent(ScriptedModel([[call("slow"), call("quick", "d")], "done"]), [slow, quick])
    assert await agent.run() == Status.SUCCESS
    assert running == ["slow", "quick"]
    assert agent.results == ["slow", "quick"]


async def test_a_sequential_tool_runs_alone():
    running: set[str] = set()
    seen: list[set[str]] = []

    async def work(name: str) -> None:
        running.add(name)
        await asyncio.sleep(0)
        seen.append(set(running))
        running.discard(name)

    @tool
    async def shared(name: str) -> None:
        await work(name)

    @tool(sequential=True)
    async def alone(name: str) -> None:
        await work(name)

    names = [("shared", "a"), ("shared", "b"), ("alone", "c"), ("alone", "d")]
    calls = [ToolCall(name=tool_name, arguments={"name": name}) for tool_name, name in names]
    await Agent(ScriptedModel([calls, "done"]), [shared, alone]).run()
    assert seen[:2] == [{"a", "b"}, {"b"}]
    assert seen[2:] == [{"c"}, {"d"}]


async def test_what_goes_wrong_with_a_tool_is_told_to_the_model():
    @tool(effect="write")
    def broken() -> None:
        raise OSError("disk full")

    bad = ToolCall(id="b", name="double", raw_arguments="{")
    model = ScriptedModel([[call("nothing"), bad, call("double", number="x"), call("broken")], "I see"])
    agent = Agent(model, [double, broken])
    assert await agent.run() == Status.SUCCESS
    kinds = [json.loads(text)["error"]["type"] for text in agent.results]
    assert kinds == ["unknown_tool", "invalid_json", "invalid_arguments", "exception"]
    assert [m.role for m in model.requests[1].messages] == ["user", "assistant", *["tool"] * 4]


ARGUMENTS = {"double": {"number": 1}, "pay": {"amount": 1}, "nothing": {}}


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["double", "pay", "nothing"]), st.sampled_from(["a", "b"]), st.booleans()),
            min_size=1,
            max_size=4,
        ),
        max_size=3,
    )
)
def test_every_call_has_exactly_one_result_in_its_place(turns):
    """Whatever is called, known or not, approved or not, under whatever id."""
    script = [[call(name, call_id, **ARGUMENTS[name]) for name, call_id, _ in turn] for turn in turns]
    verdicts = iter([good for turn in turns for name, _, good in turn if name == "pay"])
    agent = Agent(ScriptedModel([*script, "done"]), [double, pay])

    def decide(request):
        (agent.runner.approve if next(verdicts) else agent.runner.deny)(request)

    asyncio.run(agent.run_and_decide(decide))
    messages = iter(agent.state.get("messages")[1:])
    for turn in script:
        assert list(next(messages).tool_calls) == turn
        for asked in turn:
            result = next(messages)
            assert (result.role, result.tool_call_id, result.name) == ("tool", asked.id, asked.name)
    assert next(messages).text == "done"
    assert list(messages) == []


async def test_the_last_turn_is_the_last():
    model = FunctionModel(lambda request: call("double", number=1))
    agent = Agent(model, [double], max_turns=3)
    assert await agent.run() == Status.FAILURE
    assert len(model.requests) == 3
    assert agent.results == ["2"] * 3


async def test_the_next_turn_of_a_conversation_is_the_next_run():
    checkpointer = InMemoryCheckpointer()
    model = by_turn("first answer", call("double", number=4), "second answer")
    for number in (1, 2):
        agent = Agent(model, [double])
        said = {"messages": [Message.user(f"question {number}")]}
        assert await agent.run(said, checkpointer=checkpointer, thread_id="chat") == Status.SUCCESS
    texts = [message.text for message in agent.state.get("messages")]
    assert texts == ["question 1", "first answer", "question 2", "", "8", "second answer"]
    assert agent.answer == "second answer"


async def test_a_stream_is_told_and_not_stored():
    agent = Agent(ScriptedModel([call("double", number=4), "it is eight"]), [double], stream=True)
    assert await agent.run() == Status.SUCCESS
    assert "".join(event.payload["text"] for event in agent.heard.of_type("model.delta")) == "it is eight"
    assert agent.answer == "it is eight"


async def test_prompts_may_be_built_otherwise_and_summaries_are_stored():
    model = ScriptedModel([call("double", number=4), "done"])

    def summarise(messages):
        return f"{len(messages)} messages"

    builder = ContextBuilder.for_react("be brief", [double], budget=300, summarise=summarise)
    agent = Agent(model, [double], context=builder)
    history = [Message.user("word " * 100), Message.assistant("word " * 100), Message.user("now double four")]
    assert await agent.run({"messages": history}) == Status.SUCCESS
    sent = [message.text for message in model.requests[0].messages]
    assert any("2 messages" in text for text in sent)
    assert not any(text.startswith("word") for text in sent)
    assert len(agent.state.get("messages")) == len(history) + 4  # one summary, two answers, one result


# -- when the model fails ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_a_model_that_fails_ends_the_run_with_its_error(stream):
    model = ScriptedModel([ModelError("no connection"), "never asked"])
    agent = Agent(model, stream=stream)
    result = await agent.run()
    assert result == Status.FAILURE
    ((path, error),) = result.errors
    assert (path, str(error)) == ("react/turn/ask the model", "no connection")
    assert len(model.requests) == 1
    assert "no connection" in agent.runner.root.feedback_message


@pytest.mark.parametrize("stream", [False, True])
async def test_an_empty_answer_is_a_failure(stream):
    result = await Agent(ScriptedModel([Message.assistant("")]), stream=stream).run()
    assert result == Status.FAILURE
    assert "neither text nor calls (finish reason: stop)" in str(result.errors[0][1])


async def test_after_a_failure_the_conversation_can_go_on():
    checkpointer = InMemoryCheckpointer()
    first = Agent(ScriptedModel([call("double", number=4), ModelError("no connection")]), [double])
    assert await first.run(checkpointer=checkpointer, thread_id="chat") == Status.FAILURE
    second = Agent(by_turn("", "here I am"), [double])
    said = {"messages": [Message.user("again")]}
    assert await second.run(said, checkpointer=checkpointer, thread_id="chat") == Status.SUCCESS
    assert second.answer == "here I am"
    assert second.results == ["8"]


# -- people ------------------------------------------------------------------------------------------------------


async def test_a_call_is_made_when_a_person_has_approved():
    """R48: approval is asked with the tool's name and arguments."""
    agent, asked = Agent(ScriptedModel([call("pay", amount=5), "done"]), [pay]), []

    def approve(request):
        asked.append((request.tool, request.args))
        agent.runner.approve(request)

    assert await agent.run_and_decide(approve) == Status.SUCCESS
    assert asked == [("pay", {"amount": 5})]
    assert agent.results == ["paid 5"]


async def test_a_denied_call_is_not_made_and_the_model_is_told_why():
    agent = Agent(ScriptedModel([[call("pay", amount=5), call("double", number=1)], "a pity"]), [pay, double])
    await agent.run_and_decide(lambda request: agent.runner.deny(request, reason="too much"))
    denied, doubled = agent.results
    assert json.loads(denied)["error"]["type"] == "denied"
    assert "too much" in denied
    assert doubled == "2"
    assert agent.heard.of_type("tool.started")[0].payload["tool"] == "double"


async def test_a_call_nobody_decides_in_time_is_not_made():
    agent = Agent(ScriptedModel([call("pay", amount=5), "a pity"]), [pay], approval_expires_in=0.01)
    assert await agent.run() == Status.SUCCESS
    (expired,) = agent.results
    assert json.loads(expired)["error"]["type"] == "expired"


async def test_edited_arguments_are_used_and_the_model_is_told():
    agent = Agent(ScriptedModel([call("pay", amount=5), "done"]), [pay])
    await agent.run_and_decide(lambda request: agent.runner.approve(request, args={"amount": 3}))
    assert agent.results == ['[a person changed the arguments to {"amount":3}]\npaid 3']
    (wish,) = agent.state.get("messages")[1].tool_calls
    assert wish.arguments == {"amount": 5}


async def test_edited_arguments_are_checked_as_the_models_are():
    agent = Agent(ScriptedModel([call("pay", amount=5), "done"]), [pay])
    await agent.run_and_decide(lambda request: agent.runner.approve(request, args={"amount": "much"}))
    (result,) = agent.results
    assert '"type":"invalid_arguments"' in result


async def test_two_calls_with_one_id_are_asked_for_one_by_one():
    agent = Agent(ScriptedModel([[call("pay", amount=1), call("pay", amount=2)], "done"]), [pay])

    def decide(request):
        (agent.runner.approve if request.args == {"amount": 1} else agent.runner.deny)(request)

    await agent.run_and_decide(decide)
    assert agent.results[0] == "paid 1"
    assert '"type":"denied"' in agent.results[1]


async def test_nothing_has_begun_while_a_person_is_asked():
    """R48: a run that yields is decided by another process and goes on; every call is made once."""
    done = []

    @tool
    def note(number: int) -> int:
        done.append(number)
        return number

    model, checkpointer = by_turn([call("note", number=1), call("pay", "d", amount=5)], "done"), InMemoryCheckpointer()
    first = Agent(model, [note, pay])
    options = {"checkpointer": checkpointer, "thread_id": "t"}
    result = await first.run(suspension_mode=SuspensionMode.YIELD, **options)
    assert result.suspended
    assert done == []
    (request,) = result.requests
    record_decision(checkpointer, "t", request.id, approved=True, args_hash=request.args_hash)
    second = Agent(model, [note, pay])
    assert await second.run(None, **options) == Status.SUCCESS
    assert done == [1]
    assert second.results == ["1", "paid 5"]
    assert len(model.requests) == 2


# -- crashes -----------------------------------------------------------------------------------------------------


def takes(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


class Pay(Tool):
    """Pays in a world that outlives the process, and writes to the state what it did."""

    name = "pay"
    effect = "write"
    input_schema = takes("who")

    def __init__(self, world: OutsideWorld) -> None:
        self.world = world

    async def run(self, who: str, context: ToolContext) -> str:
        return await self.world.do(f"pay {who}", f"paid {who}", idempotency_key=context.idempotency_key)


class ReconciledPay(Pay):
    def reconcile(self, idempotency_key: str) -> Any:
        return self.world.find(idempotency_key)


SCRIPT = (
    [call("look", "a"), call("pay", "b", who="Ann"), call("pay", "b", who="Bob"), call("pay", "d", who="Bob")],
    [call("pay", "b", who="Bob"), call("look", "a")],
    "done",
)


@tool
async def look() -> str:
    await asyncio.sleep(0)
    return "seen"


async def test_no_tool_works_twice_wherever_the_run_crashes():
    """R24: at every cut the effects and the final state are those of a run that was never interrupted."""
    report = await crash_everywhere(
        lambda world: react_agent(by_turn(*SCRIPT), [look, ReconciledPay(world)]),
        lambda: StateManager(ReactState),
        input_data=ASK,
    )
    assert report.cuts > 40
    report.check()


class Note(Tool):
    """Writes to the state as well as to the outside world."""

    name = "note"
    effect = "write"
    idempotent = True
    input_schema = takes("text")

    def __init__(self, notes: dict[str | None, str]) -> None:
        self.notes = notes

    async def run(self, text: str, context: ToolContext) -> str:
        self.notes[context.idempotency_key] = text
        assert context.state is not None
        context.state.update(messages=[Message.user(f"noted {text}")])
        return text


async def test_what_tools_write_to_the_state_comes_after_all_results_in_the_order_of_the_calls():
    agent = Agent(ScriptedModel([[call("note", "a", text="one"), call("note", "b", text="two")], "done"]), [Note({})])
    assert await agent.run() == Status.SUCCESS
    texts = [message.text for message in agent.state.get("messages")]
    assert texts == ["go", "", "one", "two", "noted one", "noted two", "done"]


async def test_what_tools_write_to_the_state_survives_a_crash_in_the_order_of_the_calls():
    report = await crash_everywhere(
        lambda world: react_agent(
            by_turn([call("note", "a", text="one"), call("note", "b", text="two")], "done"), [Note({})]
        ),
        lambda: StateManager(ReactState),
        input_data=ASK,
    )
    report.check()


async def crashed_in_a_call(agent: Agent, world: OutsideWorld, checkpointer: InMemoryCheckpointer) -> None:
    """Run until the tool has done its work, and stop there as a crash would."""
    task = asyncio.create_task(agent.run(checkpointer=checkpointer, thread_id="t"))
    while not world.done:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class HangingPay(Pay):
    async def run(self, who: str, context: ToolContext) -> str:
        paid = await super().run(who, context)
        if len(self.world.done) == 1:
            await asyncio.Event().wait()
        return paid


async def test_a_call_of_unknown_outcome_fails_the_agent_rather_than_being_made_twice():
    """R24: the error names the call."""
    world, checkpointer, model = OutsideWorld(), InMemoryCheckpointer(), by_turn(call("pay", who="Ann"), "done")
    await crashed_in_a_call(Agent(model, [HangingPay(world)]), world, checkpointer)
    result = await Agent(model, [HangingPay(world)]).run(None, checkpointer=checkpointer, thread_id="t")
    assert result == Status.FAILURE
    ((_, error),) = result.errors
    assert isinstance(error, EffectInDoubtError)
    assert error.key == "c/0"
    assert world.done == ["pay Ann"]


async def test_a_person_may_decide_on_a_call_of_unknown_outcome():
    world, checkpointer, model = OutsideWorld(), InMemoryCheckpointer(), by_turn(call("pay", who="Ann"), "done")
    await crashed_in_a_call(Agent(model, [HangingPay(world)]), world, checkpointer)
    second = Agent(model, [HangingPay(world)], in_doubt="ask")
    result = await second.run_and_decide(second.runner.approve, data=None, checkpointer=checkpointer, thread_id="t")
    assert result == Status.SUCCESS
    assert world.done == ["pay Ann", "pay Ann"]
    assert second.results == ["paid Ann"]


async def test_an_idempotent_tool_is_called_again_with_the_same_key():
    world, checkpointer, model = OutsideWorld(), InMemoryCheckpointer(), by_turn(call("pay", who="Ann"), "done")
    keys = []

    class Repeatable(HangingPay):
        idempotent = True

        async def run(self, who: str, context: ToolContext) -> str:
            keys.append((context.thread_id, context.call_id, context.idempotency_key))
            return await super().run(who, context)

    await crashed_in_a_call(Agent(model, [Repeatable(world)]), world, checkpointer)
    second = Agent(model, [Repeatable(world)])
    assert await second.run(None, checkpointer=checkpointer, thread_id="t") == Status.SUCCESS
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert keys[0][:2] == ("t", "c")


async def test_what_reconcile_finds_is_the_result():
    world, checkpointer, model = OutsideWorld(), InMemoryCheckpointer(), by_turn(call("pay", who="Ann"), "done")

    class Looked(HangingPay):
        max_result_chars = 4

        async def reconcile(self, idempotency_key: str) -> Any:
            return "found out there" if world.done else None

    await crashed_in_a_call(Agent(model, [Looked(world)]), world, checkpointer)
    second = Agent(model, [Looked(world)])
    assert await second.run(None, checkpointer=checkpointer, thread_id="t") == Status.SUCCESS
    assert world.done == ["pay Ann"]
    assert second.results == ["foun\n[cut: the first 4 of 15 characters]"]


async def test_one_failing_effect_does_not_cut_off_its_neighbours():
    """R24: a call in doubt fails the agent, and the call beside it is still done and journaled."""
    world, checkpointer = OutsideWorld(), InMemoryCheckpointer()
    model = by_turn([call("pay", who="Ann"), call("slow", "d")], "done")
    finished = []

    @tool(effect="write", idempotent=True)
    async def slow() -> str:
        await asyncio.sleep(0.01)
        finished.append("slow")
        return "slow"

    await crashed_in_a_call(Agent(model, [HangingPay(world), slow]), world, checkpointer)
    assert finished == []
    result = await Agent(model, [HangingPay(world), slow]).run(None, checkpointer=checkpointer, thread_id="t")
    assert result == Status.FAILURE
    assert finished == ["slow"]


def test_the_tree_can_be_restored_exactly():
    assert verify_restorable(react_agent(ScriptedModel([]), ToolSet([double]))) == []
