"""OpenAI's chat completions, and every server that speaks like them: DeepSeek, Qwen, Ollama, vLLM ..."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from jianmu._extras import extra
from jianmu.errors import ConfigurationError, ModelError
from jianmu.messages import Message, ToolCall
from jianmu.models.base import BaseChatModel, ModelResponse, TextDelta, Usage, check_request
from jianmu.text import replace_surrogates
from jianmu.tools import canonical_json, to_openai

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable

    from openai import AsyncOpenAI

    from jianmu.models.base import ModelRequest, ModelSettings, StreamPart

_CHOICES = ("auto", "none", "required")


class OpenAIChatModel(BaseChatModel):
    """A model behind OpenAI's chat completions API, asked through the official ``openai`` package.

    Needs the extra ``openai``. Close it, or use it in ``async with``, to close its connections.

    Args:
        model: the model's name at the provider.
        base_url: the server, such as ``http://localhost:11434/v1`` for Ollama; by default ``OPENAI_BASE_URL`` from the
            environment, else OpenAI.
        api_key: by default ``OPENAI_API_KEY`` from the environment. A server of your own usually takes any text.
        client: your own ``AsyncOpenAI``, instead of the two above; it stays yours to close.
        max_retries: how often a request is tried again when the server is busy or cannot be reached.

    Raises:
        MissingExtraError: the package ``openai`` is not installed.
        ConfigurationError: there is no API key, or both a client and what it would be made from.

    Example:
        >>> model = OpenAIChatModel("gpt-4.1-mini")                                  # doctest: +SKIP
        >>> response = await model.complete([Message.user("Say hello in Chinese.")])  # doctest: +SKIP
        >>> response.message.text                                                    # doctest: +SKIP
        '你好!'
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        client: AsyncOpenAI | None = None,
        max_retries: int = 2,
    ) -> None:
        if client is not None and (base_url is not None or api_key is not None):
            raise ConfigurationError("OpenAIChatModel takes either a client, or base_url and api_key")
        self.name = model
        self._owns_client = client is None
        self._client = client or _client(base_url, api_key, max_retries)
        self._create: Callable[..., Awaitable[Any]] = self._client.chat.completions.create

    async def aclose(self) -> None:
        """Close the connections of a client that this model made."""
        if self._owns_client:
            await self._client.close()

    async def __aenter__(self) -> OpenAIChatModel:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def _complete(self, request: ModelRequest) -> ModelResponse:
        with self._asking():
            return _response(await self._create(**self._fields(request)), self.name)

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        usage = {"include_usage": True}
        with self._asking():
            chunks = await self._create(**self._fields(request), stream=True, stream_options=usage)
            gathered = _Gathered(model=self.name)
            async with chunks:
                async for chunk in chunks:
                    if text := gathered.add(chunk):
                        yield TextDelta(text=text)
            yield gathered.response()

    def _fields(self, request: ModelRequest) -> dict[str, Any]:
        settings = request.settings
        fields: dict[str, Any] = {
            "model": self.name,
            "messages": to_openai_messages(request.messages),
            "temperature": settings.temperature,
            self._limit_field(): settings.max_tokens,
            "timeout": settings.timeout,
            "extra_body": dict(settings.extra) or None,
        }
        if request.tools.names:
            fields |= {"tools": to_openai(request.tools), "tool_choice": _tool_choice(settings)}
        return {name: value for name, value in fields.items() if value is not None}

    def _limit_field(self) -> str:
        # OpenAI's newer models refuse the old name, most other servers know only that one.
        return "max_completion_tokens" if self._client.base_url.host == "api.openai.com" else "max_tokens"

    @contextmanager
    def _asking(self) -> Generator[None]:
        """Ask nobody who may not be asked, and say of an error what, where and what to do."""
        with extra("openai"):
            from openai import APIConnectionError, APIStatusError, APITimeoutError, OpenAIError
        url = self._client.base_url
        check_request(self.name, url.host)
        where = f"model {self.name!r} at {url}"
        try:
            yield
        except APITimeoutError as error:
            raise ModelError(f"{where}: no answer in time; raise ModelSettings.timeout, or ask for less") from error
        except APIConnectionError as error:
            cause = error.__cause__ or error
            raise ModelError(f"{where}: not reached ({cause}); check base_url and that the server runs") from error
        except APIStatusError as error:
            hint = _HINTS.get(error.status_code, _HINTS[error.status_code // 100 * 100])
            raise ModelError(
                f"{where}: HTTP {error.status_code}: {_reason(error.body, error.message)}; {hint}"
            ) from error
        except OpenAIError as error:
            raise ModelError(f"{where}: {error}") from error


_HINTS = {
    300: "check base_url",
    400: "the server does not take this request: check the settings, and that the prompt fits the model",
    401: "check api_key, or OPENAI_API_KEY in the environment",
    403: "this key may not use this model",
    404: "check the model's name and base_url, which usually ends in /v1",
    413: "the prompt is too large: give ContextBuilder a budget",
    429: "the provider's limit is reached: wait, ask less often, or check the account",
    500: "the provider has a problem: try again later",
}


def _client(base_url: str | None, api_key: str | None, max_retries: int) -> AsyncOpenAI:
    with extra("openai"):
        from openai import AsyncOpenAI
    if not (api_key or os.environ.get("OPENAI_API_KEY")):
        raise ConfigurationError(
            "OpenAIChatModel has no API key: pass api_key=..., or set OPENAI_API_KEY; "
            "a server of your own (base_url=...) usually takes any text"
        )
    return AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=max_retries)


def _tool_choice(settings: ModelSettings) -> Any:
    choice = settings.tool_choice
    if choice is None or choice in _CHOICES:
        return choice
    return {"type": "function", "function": {"name": choice}}


def _reason(body: Any, message: str) -> str:
    """What the server says, without what the package wraps around it."""
    told = body.get("message") if isinstance(body, dict) else None  # pyright: ignore[reportUnknownVariableType]
    return told if isinstance(told, str) and told else message


# -- messages, both ways -----------------------------------------------------------------------------------------


def to_openai_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Write messages as chat completions want them.

    Arguments that could not be decoded are sent back as the text they were, so that the model sees what it wrote. Lone
    surrogates, which no request can carry, become U+FFFD.
    """
    return [_sendable(_outgoing(message)) for message in messages]


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, list):
        return [_sendable(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _sendable(item) for name, item in cast("dict[str, Any]", value).items()}
    return value


def _outgoing(message: Message) -> dict[str, Any]:
    written: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role == "tool":
        return {**written, "tool_call_id": message.tool_call_id}
    if message.name is not None:
        written["name"] = message.name
    if message.tool_calls:
        written["tool_calls"] = [_outgoing_call(call) for call in message.tool_calls]
        written["content"] = message.content or None
    return written


def _outgoing_call(call: ToolCall) -> dict[str, Any]:
    arguments = canonical_json(call.arguments) if call.raw_arguments is None else call.raw_arguments
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _response(answer: Any, asked: str) -> ModelResponse:
    if not getattr(answer, "choices", None):
        raise ModelError(
            f"model {asked!r}: the answer is no chat completion; check base_url, which usually ends in /v1"
        )
    choice = answer.choices[0]
    said = choice.message
    calls = [
        _call(call.id, call.function.name, call.function.arguments)
        for call in said.tool_calls or ()
        if call.function is not None
    ]
    return ModelResponse(
        message=_message(said.content or "", calls, getattr(said, "refusal", None) or ""),
        model=answer.model or asked,
        usage=_usage(answer.usage),
        finish_reason=choice.finish_reason,
    )


def _message(text: str, calls: list[ToolCall], refusal: str) -> Message:
    if refusal:
        return Message.assistant(text or refusal, calls, metadata={"refusal": refusal})
    return Message.assistant(text, calls)


def _call(call_id: str | None, name: str, arguments: str | None) -> ToolCall:
    known: dict[str, Any] = {"id": call_id} if call_id else {}  # some servers give none
    try:
        decoded = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        decoded = None
    if isinstance(decoded, dict):
        return ToolCall(name=name, arguments=decoded, **known)  # pyright: ignore[reportUnknownArgumentType]
    return ToolCall(name=name, raw_arguments=arguments, **known)


def _usage(usage: Any) -> Usage:
    if usage is None:
        return Usage()
    return Usage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens)


@dataclass
class _Part:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class _Gathered:
    """Puts a streamed answer together."""

    model: str
    text: str = ""
    refusal: str = ""
    calls: dict[int, _Part] = field(default_factory=dict[int, _Part])
    usage: Any = None
    finish_reason: str | None = None

    def add(self, chunk: Any) -> str:
        """Take one chunk; return its piece of text."""
        self.model = chunk.model or self.model
        self.usage = chunk.usage or self.usage
        if not chunk.choices:
            return ""
        choice = chunk.choices[0]
        self.finish_reason = choice.finish_reason or self.finish_reason
        delta = choice.delta
        for call in delta.tool_calls or ():
            self._add_call(call)
        self.refusal += getattr(delta, "refusal", None) or ""
        self.text += delta.content or ""
        return delta.content or ""

    def _add_call(self, piece: Any) -> None:
        part = self.calls.setdefault(piece.index, _Part())
        part.id = part.id or piece.id or ""
        if piece.function is not None:
            part.name = part.name or piece.function.name or ""
            part.arguments += piece.function.arguments or ""

    def response(self) -> ModelResponse:
        """Return the whole answer."""
        if self.finish_reason is None:
            raise ModelError(f"model {self.model!r}: the answer broke off after {len(self.text)} characters; ask again")
        calls = [_call(part.id, part.name, part.arguments) for _, part in sorted(self.calls.items())]
        return ModelResponse(
            message=_message(self.text, calls, self.refusal),
            model=self.model,
            usage=_usage(self.usage),
            finish_reason=self.finish_reason,
        )
