"""OpenAIChatModel speaks real HTTP, through the official package, to a server on this machine."""

import json
import socket
import subprocess
import sys
import threading

import pytest
from openai import AsyncOpenAI

from jianmu import Message, ToolCall, ToolSet, tool
from jianmu.errors import ConfigurationError, ModelError
from jianmu.models import ModelResponse, ModelSettings, OpenAIChatModel, TextDelta, Usage, forbid_real_requests
from jianmu.testing import ScriptedOpenAIServer
from jianmu.testing.models import HTTPFailure

HELLO = [Message.system("be kind"), Message.user("hello")]
CALL = ToolCall(id="call-1", name="weather", arguments={"city": "都灵", "days": 2})


@tool
def weather(city: str, days: int = 1) -> str:
    """Tell the weather.

    Args:
        city: where.
        days: for how many days.
    """
    return city


@pytest.fixture
def serve():
    """Start a server with a script; gives the server and a model that asks it."""
    servers = []

    def start(script, **options):
        server = ScriptedOpenAIServer(script).__enter__()
        servers.append(server)
        return server, OpenAIChatModel("m-1", base_url=server.url, api_key="k-1", **{"max_retries": 0, **options})

    yield start
    for server in servers:
        server.__exit__()


async def test_the_request_is_what_openai_documents(serve):
    server, model = serve(["good day"])
    settings = ModelSettings(temperature=0.5, max_tokens=9, tool_choice="weather", extra={"top_k": 3})
    async with model:
        response = await model.complete(HELLO, tools=[weather], settings=settings)
    assert response == ModelResponse(
        message=Message.assistant("good day"),
        model="m-1",
        usage=Usage(input_tokens=3, output_tokens=2),
        finish_reason="stop",
    )
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer k-1"
    assert request.body == {
        "model": "m-1",
        "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello"}],
        "temperature": 0.5,
        "max_tokens": 9,
        "top_k": 3,
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "weather",
                    "description": "Tell the weather.",
                    "parameters": weather.input_schema,
                },
            }
        ],
    }


async def test_nothing_is_sent_that_was_not_asked_for(serve):
    server, model = serve(["good day"])
    async with model:
        await model.complete(HELLO)
    assert server.requests[0].body.keys() == {"model", "messages"}


async def test_calls_and_their_results_go_round(serve):
    """A call arrives with its id and arguments, and goes back, with its result, as it came."""
    server, model = serve([[CALL, ToolCall(id="call-2", name="weather", raw_arguments='{"city": ')], "done"])
    async with model:
        wish = (await model.complete(HELLO, tools=[weather])).message
        results = await ToolSet([weather]).execute(wish.tool_calls)
        answer = await model.complete([*HELLO, wish, *results], tools=[weather])
    assert wish.tool_calls == (CALL, ToolCall(id="call-2", name="weather", raw_arguments='{"city": '))
    assert answer.message.text == "done"
    said, first, second = server.requests[1].body["messages"][2:]
    assert [json.loads(said["tool_calls"][0]["function"]["arguments"]), said["content"]] == [CALL.arguments, None]
    assert said["tool_calls"][1]["function"]["arguments"] == '{"city": '
    assert (first["tool_call_id"], first["content"]) == ("call-1", "都灵")
    assert (second["tool_call_id"], json.loads(second["content"])["error"]["type"]) == ("call-2", "invalid_json")


async def test_a_stream_gives_pieces_and_ends_with_the_whole_answer(serve):
    said = Message.assistant("it is sunny", [CALL, CALL.model_copy(update={"id": "call-2"})])
    server, model = serve([said])
    async with model:
        parts = [part async for part in model.stream(HELLO, tools=[weather])]
    assert parts[:-1] == [TextDelta(text="it "), TextDelta(text="is "), TextDelta(text="sunny")]
    assert parts[-1].message == said
    assert parts[-1].usage.input_tokens == 3
    assert server.requests[0].body["stream_options"] == {"include_usage": True}


async def test_a_stream_that_breaks_off_is_an_error(serve):
    head = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m-1"}
    chunk = {**head, "choices": [{"index": 0, "delta": {"content": "well,"}, "finish_reason": None}]}
    _, model = serve([f"data: {json.dumps(chunk)}\n\n".encode()])
    async with model:
        with pytest.raises(ModelError, match="broke off after 5 characters"):
            [part async for part in model.stream(HELLO)]


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (400, "check the settings"),
        (401, "OPENAI_API_KEY"),
        (404, "check the model's name and base_url"),
        (418, "check the settings"),
        (429, "limit is reached"),
        (503, "try again later"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_error_says_what_where_and_what_to_do(serve, status, hint, streamed):
    server, model = serve([HTTPFailure(status=status, message="told by the server")])
    async with model:
        asking = anext(model.stream(HELLO)) if streamed else model.complete(HELLO)
        with pytest.raises(ModelError) as raised:
            await asking
    for part in ("'m-1'", server.url, f"HTTP {status}", "told by the server", hint):
        assert part in str(raised.value)


async def test_a_busy_server_is_asked_again(serve):
    server, model = serve([HTTPFailure(status=429, retry_after=0.01), "good day"], max_retries=1)
    async with model:
        assert (await model.complete(HELLO)).message.text == "good day"
    assert len(server.requests) == 2


async def test_a_server_that_is_not_there_is_an_error():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # taken, and nobody listens
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        async with OpenAIChatModel("m", base_url=url, api_key="k", max_retries=0) as model:
            with pytest.raises(ModelError, match=r"not reached .*check base_url and that the server runs"):
                await model.complete(HELLO)


async def test_an_answer_that_does_not_come_in_time_is_an_error(serve):
    given_up = threading.Event()

    def slow(body):
        given_up.wait(30)
        return "late"

    _, model = serve(slow)
    async with model:
        try:
            with pytest.raises(ModelError, match=r"no answer in time; raise ModelSettings.timeout"):
                await model.complete(HELLO, settings=ModelSettings(timeout=0.2))
        finally:
            given_up.set()


@pytest.mark.parametrize("body", [b"{}", b'{"choices": []}', b"[]", b"not json", b"<html></html>"])
async def test_a_server_that_speaks_something_else_is_an_error(serve, body):
    _, model = serve([body])
    async with model:
        with pytest.raises(ModelError, match=r"model 'm-1'.*(is no chat completion; check base_url|JSON)"):
            await model.complete(HELLO)


async def test_this_machine_may_be_asked_while_real_requests_are_forbidden_another_may_not(serve):
    _, model = serve(["good day"])
    with forbid_real_requests():
        async with model, OpenAIChatModel("m", base_url="https://models.example/v1", api_key="k") as far:
            assert (await model.complete(HELLO)).message.text == "good day"
            for asking in (far.complete(HELLO), anext(far.stream(HELLO))):
                with pytest.raises(ModelError, match=r"models\.example was stopped"):
                    await asking


async def test_a_client_of_ones_own_stays_open(serve):
    server, _ = serve(["one", "two"])
    async with AsyncOpenAI(base_url=server.url, api_key="k") as client:
        for text in ("one", "two"):
            async with OpenAIChatModel("m", client=client) as model:
                assert (await model.complete(HELLO)).message.text == text


def test_a_key_is_asked_for_at_once(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="set OPENAI_API_KEY"):
        OpenAIChatModel("m")


async def test_the_environment_names_key_and_server(serve, monkeypatch):
    server, _ = serve(["good day"])
    monkeypatch.setenv("OPENAI_API_KEY", "from-env")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    async with OpenAIChatModel("m") as model:
        await model.complete(HELLO)
    assert server.requests[0].headers["authorization"] == "Bearer from-env"


async def test_a_client_and_what_it_is_made_from_exclude_each_other():
    async with AsyncOpenAI(api_key="k") as client:
        with pytest.raises(ConfigurationError, match="either a client"):
            OpenAIChatModel("m", client=client, base_url="http://127.0.0.1/v1")


def test_the_package_is_needed_only_when_a_model_is_made():
    code = """
import sys
sys.modules["openai"] = None
from jianmu.models import OpenAIChatModel
try:
    OpenAIChatModel("m", api_key="k")
except ImportError as error:
    print(type(error).__name__, error)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("MissingExtraError")
    assert "pip install 'jianmu[openai]'" in ran.stdout


# -- the server itself -------------------------------------------------------------------------------------------


async def test_embeddings_are_deterministic_and_near_for_texts_that_share_words(serve):
    server, _ = serve([])
    async with AsyncOpenAI(base_url=server.url, api_key="k") as client:
        answer = await client.embeddings.create(model="e", input=["green tea", "a cup of green tea", "red car"])
        plain = await client.embeddings.create(model="e", input="green tea", encoding_format="float", dimensions=8)
    tea, cup, car = (item.embedding for item in answer.data)

    def near(one, other):
        return sum(a * b for a, b in zip(one, other, strict=True))

    assert near(tea, tea) == pytest.approx(1)
    assert near(tea, cup) > near(tea, car)
    assert len(plain.data[0].embedding) == 8


async def test_models_are_listed_and_other_paths_are_not_there(serve):
    server, _ = serve([])
    async with AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0) as client:
        assert [model.id async for model in client.models.list()] == ["scripted"]
        with pytest.raises(Exception, match="there is no /v1/files"):
            await client.files.list()


async def test_a_script_may_be_a_function_of_the_request(serve):
    _, model = serve(lambda body: f"{len(body['messages'])} messages")
    async with model:
        assert (await model.complete(HELLO)).message.text == "2 messages"


async def test_a_script_that_is_over_is_an_error_of_the_server(serve):
    _, model = serve([])
    async with model:
        with pytest.raises(ModelError, match="the script is over"):
            await model.complete(HELLO)
