"""Laws that hold for every chat model."""

import asyncio
import contextlib

import pytest

from jianmu.errors import ModelError
from jianmu.events import ListSink, RuntimeEventBus, scope
from jianmu.messages import Message, ToolCall
from jianmu.models import BaseChatModel, ModelResponse, ModelSettings, TextDelta, forbid_real_requests
from jianmu.models.base import check_request
from jianmu.testing import FunctionModel, ScriptedModel
from jianmu.tools import tool

HELLO = [Message.user("hello")]


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return city


@pytest.fixture
def heard():
    sink, bus = ListSink(), RuntimeEventBus()
    bus.attach(sink)
    with scope(bus=bus):
        yield sink
    bus.close()


def types(sink: ListSink) -> list[str]:
    return [event.type for event in sink.events]


async def test_a_request_tells_who_was_asked_and_what_it_cost(heard):
    await ScriptedModel(["good day"], name="m").complete(HELLO, tools=[weather])
    asked, answered = heard.events
    assert (asked.type, asked.payload) == ("model.requested", {"model": "m", "messages": 1, "tools": 1})
    assert answered.type == "model.completed"
    assert answered.payload["finish_reason"] == "stop"
    assert answered.payload["input_tokens"] == 1
    assert answered.payload["seconds"] >= 0


async def test_what_a_model_raises_becomes_a_model_error_that_names_it(heard):
    model = FunctionModel(lambda request: 1 / 0, name="m")
    with pytest.raises(ModelError, match=r"model 'm': ZeroDivisionError: division by zero") as raised:
        await model.complete(HELLO)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert types(heard) == ["model.requested", "model.failed"]


async def test_a_model_error_stays_the_same_object(heard):
    error = ModelError("mine")
    with pytest.raises(ModelError) as raised:
        await ScriptedModel([error]).complete(HELLO)
    assert raised.value is error


async def test_a_cancelled_request_is_told_and_stays_cancelled(heard):
    asked = asyncio.Event()

    async def never(request):
        asked.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(FunctionModel(never).complete(HELLO))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert types(heard) == ["model.requested", "model.failed"]


async def test_a_stream_is_pieces_and_then_the_whole_answer(heard):
    parts = [part async for part in ScriptedModel(["good day"]).stream(HELLO)]
    assert "".join(part.text for part in parts if isinstance(part, TextDelta)) == "good day"
    assert [type(part) for part in parts][-1] is ModelResponse
    assert parts[-1].message == Message.assistant("good day")
    assert types(heard) == ["model.requested", "model.delta", "model.completed"]


async def test_a_stream_that_is_left_early_is_told(heard):
    async with contextlib.aclosing(ScriptedModel(["good day"]).stream(HELLO)) as parts:
        async for _ in parts:
            break
    assert types(heard) == ["model.requested", "model.delta", "model.failed"]


async def test_a_stream_without_an_answer_is_an_error(heard):
    class Silent(BaseChatModel):
        name = "silent"

        async def _complete(self, request):
            raise NotImplementedError

        async def _stream(self, request):
            yield TextDelta(text="well,")

    with pytest.raises(ModelError, match="'silent' gave no answer"):
        [part async for part in Silent().stream(HELLO)]
    assert types(heard)[-1] == "model.failed"


async def test_a_model_sees_messages_tools_and_settings():
    model = ScriptedModel(["yes"])
    settings = ModelSettings(temperature=0.5)
    await model.complete(HELLO, tools=[weather], settings=settings)
    (request,) = model.requests
    assert (request.messages, request.tools.names, request.settings) == (tuple(HELLO), ["weather"], settings)


async def test_a_script_gives_each_kind_of_answer_and_says_when_it_is_over():
    call = ToolCall(name="weather", arguments={"city": "Turin"})
    whole = ModelResponse(message=Message.assistant("whole"), model="other")
    model = ScriptedModel(["text", call, [call, call], Message.assistant("message"), whole])
    answers = [(await model.complete(HELLO)).message for _ in range(5)]
    assert answers == [
        Message.assistant("text"),
        Message.assistant("", [call]),
        Message.assistant("", [call, call]),
        Message.assistant("message"),
        Message.assistant("whole"),
    ]
    with pytest.raises(ModelError, match="the script is over: it has 5 answers"):
        await model.complete(HELLO)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]"])
def test_this_machine_may_be_asked_while_real_requests_are_forbidden(host):
    with forbid_real_requests():
        check_request("m", host)


@pytest.mark.parametrize("host", ["api.openai.com", "10.0.0.1", "localhost.example.com"])
def test_another_machine_may_not_until_the_last_block_ends(host):
    with forbid_real_requests():
        with forbid_real_requests():
            pass
        with pytest.raises(ModelError, match=rf"'m': a request to {host} was stopped"):
            check_request("m", host)
    check_request("m", host)
