"""Models that say what a test wants: in the process, or behind real HTTP as OpenAI's API.

An answer, wherever one is scripted, is one of: a text; a `ToolCall` or a list of them; a `Message`; a `ModelResponse`;
an exception, which is raised. A script is a list of answers, or a function that is given the request and returns one.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from jianmu.errors import ModelError
from jianmu.messages import Message, ToolCall
from jianmu.models import BaseChatModel, ModelRequest, ModelResponse, ModelSettings, Usage
from jianmu.text import estimate_tokens, tokenize
from jianmu.tools import ToolSet, canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterator

Answer: TypeAlias = str | ToolCall | Sequence[ToolCall] | Message | ModelResponse | Exception
"""What a scripted model says."""


# -- in the process ----------------------------------------------------------------------------------------------


class FunctionModel(BaseChatModel):
    """A model that is a function.

    Args:
        function: takes the `ModelRequest` and returns an answer; sync or async.
        name: the model's name.

    Attributes:
        requests: what it was asked, oldest first.

    Example:
        >>> parrot = FunctionModel(lambda request: request.messages[-1].text)
    """

    def __init__(self, function: Callable[[ModelRequest], Any], *, name: str = "function") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self._function = function

    async def _complete(self, request: ModelRequest) -> ModelResponse:
        self.requests.append(request)
        answer = self._function(request)
        return _response(await answer if inspect.isawaitable(answer) else answer, request, self.name)


class ScriptedModel(FunctionModel):
    """A model that gives the answers of a list, one after the other.

    Args:
        answers: the answers; a request after the last one is a `ModelError`.
        name: the model's name.

    Attributes:
        requests: what it was asked, oldest first.

    Example:
        >>> model = ScriptedModel([ToolCall(name="weather", arguments={"city": "Turin"}), "It is sunny in Turin."])
    """

    def __init__(self, answers: Iterable[Answer], *, name: str = "scripted") -> None:
        super().__init__(_one_after_another(answers), name=name)


def _one_after_another(answers: Iterable[Answer]) -> Callable[[Any], Answer]:
    script, turn = tuple(answers), threading.Lock()
    rest = iter(script)

    def next_answer(_request: Any) -> Answer:
        with turn:
            for answer in rest:
                return answer
        raise ModelError(f"the script is over: it has {len(script)} answers, and one more was asked for")

    return next_answer


def _response(answer: Answer, request: ModelRequest, name: str) -> ModelResponse:
    if isinstance(answer, Exception):
        raise answer
    if isinstance(answer, ModelResponse):
        return answer
    message = _message(answer)
    usage = Usage(
        input_tokens=sum(estimate_tokens(asked.text) for asked in request.messages),
        output_tokens=estimate_tokens(message.text),
    )
    return ModelResponse(message=message, model=name, usage=usage, finish_reason=_finish_reason(message))


def _message(answer: str | ToolCall | Sequence[ToolCall] | Message) -> Message:
    if isinstance(answer, Message):
        return answer
    if isinstance(answer, str):
        return Message.assistant(answer)
    return Message.assistant("", [answer] if isinstance(answer, ToolCall) else list(answer))


def _finish_reason(message: Message) -> str:
    return "tool_calls" if message.tool_calls else "stop"


# -- behind HTTP -------------------------------------------------------------------------------------------------


@dataclass(kw_only=True, eq=False)
class HTTPFailure(Exception):
    """An answer that is an HTTP error.

    Attributes:
        status: its status code.
        message: what the server says.
        retry_after: seconds after which to try again; None says nothing of it.
    """

    status: int
    message: str = "scripted failure"
    retry_after: float | None = None


@dataclass(frozen=True, kw_only=True)
class ServedRequest:
    """What a `ScriptedOpenAIServer` was asked.

    Attributes:
        path: such as ``/v1/chat/completions``.
        headers: by lower-case name.
        body: the decoded body; empty for a GET.
    """

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class ScriptedOpenAIServer:
    """A server on this machine that speaks OpenAI's API over real HTTP and says what a script says.

    It serves ``/v1/chat/completions`` (whole and streamed), ``/v1/embeddings`` (texts that share words are near) and
    ``/v1/models``. Beside the other answers a script may give `HTTPFailure`, or bytes, which are sent as they are. A
    function is called in a thread of its own for each request, and may take its time.

    Args:
        script: answers, or a function that takes the decoded body of a request and returns an answer.
        model: the name ``/v1/models`` lists.
        port: where to listen; 0 takes a free one.

    Attributes:
        url: what a client takes as its ``base_url``.
        requests: what it was asked, oldest first.

    Example:
        >>> with ScriptedOpenAIServer(["Hello!"]) as server:
        ...     server.url.startswith("http://127.0.0.1:")
        True
    """

    def __init__(
        self,
        script: Iterable[Answer | bytes] | Callable[[dict[str, Any]], Answer | bytes] = (),
        *,
        model: str = "scripted",
        port: int = 0,
    ) -> None:
        self.model = model
        self.requests: list[ServedRequest] = []
        self._script: Callable[[dict[str, Any]], Any] = (
            script if callable(script) else _one_after_another(cast("Iterable[Answer]", script))
        )
        self._server = _Server(("127.0.0.1", port), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ScriptedOpenAIServer:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, request: ServedRequest) -> Iterator[_Piece]:
        """Give the answer to a request, in the pieces it is sent in; the first one begins the response."""
        self.requests.append(request)
        path = request.path.split("?")[0].rstrip("/")
        if path == "/v1/chat/completions":
            return self._chat(request.body)
        if path == "/v1/embeddings":
            return iter([_as_json(_embeddings(request.body))])
        if path == "/v1/models":
            return iter([_as_json({"object": "list", "data": [{"id": self.model, "object": "model"}]})])
        return iter([_failure(HTTPFailure(status=404, message=f"there is no {path}"))])

    def _chat(self, body: dict[str, Any]) -> Iterator[_Piece]:
        streamed = bool(body.get("stream"))
        try:
            answer = self._script(body)
            if isinstance(answer, bytes):
                return iter([_Piece(answer, "text/event-stream" if streamed else "application/json")])
            response = _response(answer, _as_request(body), str(body.get("model") or self.model))
        except HTTPFailure as failure:
            return iter([_failure(failure)])
        except Exception as error:
            return iter([_failure(HTTPFailure(status=400, message=f"{type(error).__name__}: {error}"))])
        return _streamed(response, body) if streamed else iter([_as_json(_completion(response))])


@dataclass(frozen=True)
class _Piece:
    data: bytes
    content_type: str = "application/json"
    status: int = 200
    retry_after: float | None = None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # HTTPServer would look its own name up in the DNS, which can take seconds and nobody needs.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up."""


def _handler(server: ScriptedOpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve({})

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            self._serve(json.loads(self.rfile.read(length) or b"{}"))

        def _serve(self, body: dict[str, Any]) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            pieces = server.answer(ServedRequest(path=self.path, headers=headers, body=body))
            first = next(pieces)
            self.send_response(first.status)
            self.send_header("Content-Type", first.content_type)
            if first.retry_after is not None:
                self.send_header("Retry-After", str(first.retry_after))
            self.end_headers()
            for piece in (first, *pieces):
                self.wfile.write(piece.data)
                self.wfile.flush()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
            """Print nothing."""

    return Handler


# -- what OpenAI's API looks like --------------------------------------------------------------------------------


def _as_json(content: Any, status: int = 200, retry_after: float | None = None) -> _Piece:
    return _Piece(json.dumps(content).encode(), status=status, retry_after=retry_after)


def _failure(failure: HTTPFailure) -> _Piece:
    error = {"error": {"message": failure.message, "type": "scripted", "code": None, "param": None}}
    return _as_json(error, failure.status, failure.retry_after)


def _as_request(body: dict[str, Any]) -> ModelRequest:
    """What is needed of a request to count its tokens."""
    texts = [str(message.get("content") or "") for message in body.get("messages", [])]
    return ModelRequest(messages=tuple(map(Message.user, texts)), tools=ToolSet(), settings=ModelSettings())


def _completion(response: ModelResponse) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": response.message.text or None}
    if response.message.tool_calls:
        said["tool_calls"] = [_call(call) for call in response.message.tool_calls]
    choice = {"index": 0, "message": said, "finish_reason": response.finish_reason, "logprobs": None}
    return {**_frame(response, "chat.completion"), "choices": [choice], "usage": _usage(response.usage)}


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = canonical_json(call.arguments) if call.raw_arguments is None else call.raw_arguments
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _frame(response: ModelResponse, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": response.model}


def _usage(usage: Usage) -> dict[str, int]:
    read, written = usage.input_tokens or 0, usage.output_tokens or 0
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _streamed(response: ModelResponse, body: dict[str, Any]) -> Iterator[_Piece]:
    frame = _frame(response, "chat.completion.chunk")

    def event(content: Any) -> _Piece:
        return _Piece(f"data: {json.dumps(content)}\n\n".encode(), "text/event-stream")

    def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> _Piece:
        return event({**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})

    yield chunk({"role": "assistant", "content": ""})
    for delta in _deltas(response.message):
        yield chunk(delta)
    yield chunk({}, response.finish_reason)
    if (body.get("stream_options") or {}).get("include_usage"):
        yield event({**frame, "choices": [], "usage": _usage(response.usage)})
    yield _Piece(b"data: [DONE]\n\n", "text/event-stream")


def _deltas(message: Message) -> Iterator[dict[str, Any]]:
    """Cut a message in pieces: text after each blank, arguments in the middle, as providers do."""
    yield from ({"content": piece} for piece in _words(message.text))
    for index, call in enumerate(message.tool_calls):
        whole = _call(call)
        arguments: str = whole["function"]["arguments"]
        half = len(arguments) // 2
        head = {**whole, "index": index, "function": {"name": call.name, "arguments": arguments[:half]}}
        yield {"tool_calls": [head]}
        yield {"tool_calls": [{"index": index, "function": {"arguments": arguments[half:]}}]}


def _words(text: str) -> list[str]:
    words = text.split(" ")
    return [word + " " for word in words[:-1]] + words[-1:] if text else []


_DIMENSION = 64


def _embeddings(body: dict[str, Any]) -> dict[str, Any]:
    given = body.get("input", "")
    texts: list[Any] = cast("list[Any]", given) if isinstance(given, list) else [given]
    width, packed = int(body.get("dimensions") or _DIMENSION), body.get("encoding_format") == "base64"
    vectors = [_vector(str(text), width) for text in texts]
    data = [
        {"object": "embedding", "index": index, "embedding": _packed(vector) if packed else vector}
        for index, vector in enumerate(vectors)
    ]
    tokens = sum(estimate_tokens(str(text)) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": body.get("model", "scripted"), "data": data, "usage": usage}


def _vector(text: str, width: int) -> list[float]:
    """Count the words of a text in buckets, and scale to unit length."""
    counts = [0.0] * width
    for token in tokenize(text) or [text]:
        counts[int.from_bytes(hashlib.sha256(token.encode("utf-8", "replace")).digest()[:4], "big") % width] += 1.0
    length = sum(count * count for count in counts) ** 0.5
    return [count / length for count in counts]


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
