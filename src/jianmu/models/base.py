"""What every chat model can do, and what is the same for all of them: events, errors, the switch for tests."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from abc import ABC, abstractmethod
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from jianmu.errors import ModelError
from jianmu.events import ModelCompleted, ModelDelta, ModelFailed, ModelRequested, emit
from jianmu.tools import Tool, ToolSet

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence

    from jianmu.messages import Message

Tools: TypeAlias = "ToolSet | Iterable[Tool] | None"


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """How a model is to answer. None leaves a setting to the provider.

    Attributes:
        temperature: how freely it chooses its words.
        max_tokens: the longest answer, in tokens.
        tool_choice: ``"auto"``, ``"none"``, ``"required"``, or the name of the tool it has to call.
        timeout: seconds until a request is given up.
        extra: more fields of the request, by the provider's names.
    """

    temperature: float | None = None
    max_tokens: int | None = None
    tool_choice: str | None = None
    timeout: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens of one request, as far as the provider tells.

    Attributes:
        input_tokens: tokens of the prompt.
        output_tokens: tokens of the answer.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """Everything a model is asked with.

    Attributes:
        messages: the prompt, oldest message first.
        tools: what it may call.
        settings: how it is to answer.
    """

    messages: tuple[Message, ...]
    tools: ToolSet
    settings: ModelSettings


@dataclass(frozen=True, kw_only=True)
class ModelResponse:
    """A model's answer.

    Attributes:
        message: what it says, and the calls it asks for.
        model: the model that answered, as the provider names it.
        usage: what it cost.
        finish_reason: why it stopped, in the provider's words.
    """

    message: Message
    model: str
    usage: Usage = field(default_factory=Usage)
    finish_reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class TextDelta:
    """A piece of an answer's text, while it is being written.

    Attributes:
        text: the piece.
    """

    text: str


StreamPart: TypeAlias = TextDelta | ModelResponse
"""What a stream gives: pieces of text, and last of all the whole answer."""


class ChatModel(Protocol):
    """A model that answers a conversation and may call tools. `BaseChatModel` is the easy way to write one.

    Attributes:
        name: the model's name, for events and errors.
    """

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    async def complete(
        self, messages: Sequence[Message], *, tools: Tools = None, settings: ModelSettings | None = None
    ) -> ModelResponse:
        """Ask the model.

        Args:
            messages: the prompt, oldest message first. Every call in it has its result.
            tools: what the model may call; calling them is the asker's matter.
            settings: how it is to answer; the provider's defaults when omitted.

        Returns:
            The answer. Call arguments that are no JSON object are kept in `ToolCall.raw_arguments`.

        Raises:
            ModelError: the model could not be asked, or gave no usable answer; says what to do.
        """
        ...

    def stream(
        self, messages: Sequence[Message], *, tools: Tools = None, settings: ModelSettings | None = None
    ) -> AsyncGenerator[StreamPart]:
        """Ask the model and watch it write.

        The arguments and errors are those of `complete`.

        Returns:
            Pieces of text as they come, then exactly one `ModelResponse`, which is the whole answer.
        """
        ...


class BaseChatModel(ABC):
    """Does what is the same for every model: tells events, turns whatever goes wrong into a `ModelError`.

    A subclass sets ``name`` and writes ``_complete``, and ``_stream`` where it can stream.

    Example:
        >>> from jianmu.messages import Message
        >>> class Echo(BaseChatModel):
        ...     name = "echo"
        ...
        ...     async def _complete(self, request):
        ...         return ModelResponse(message=Message.assistant(request.messages[-1].text), model=self.name)
        >>> asyncio.run(Echo().complete([Message.user("hello")])).message.text
        'hello'
    """

    name: str

    async def complete(
        self, messages: Sequence[Message], *, tools: Tools = None, settings: ModelSettings | None = None
    ) -> ModelResponse:
        """Ask the model; see `ChatModel.complete`."""
        request = _request(messages, tools, settings)
        with _told(self.name, request) as told:
            told.response = await self._complete(request)
            return told.response

    async def stream(
        self, messages: Sequence[Message], *, tools: Tools = None, settings: ModelSettings | None = None
    ) -> AsyncGenerator[StreamPart]:
        """Ask the model and watch it write; see `ChatModel.stream`."""
        request = _request(messages, tools, settings)
        with _told(self.name, request) as told:
            async with aclosing(self._stream(request)) as parts:
                async for part in parts:
                    if isinstance(part, ModelResponse):
                        told.response = part
                        break
                    emit(ModelDelta(model=self.name, text=part.text))
                    yield part
        assert told.response is not None
        yield told.response

    @abstractmethod
    async def _complete(self, request: ModelRequest) -> ModelResponse:
        """Answer; may raise anything."""

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """Answer piece by piece, the whole answer last; by default in one piece."""
        response = await self._complete(request)
        if response.message.text:
            yield TextDelta(text=response.message.text)
        yield response


def _request(messages: Sequence[Message], tools: Tools, settings: ModelSettings | None) -> ModelRequest:
    toolset = tools if isinstance(tools, ToolSet) else ToolSet(tools or ())
    return ModelRequest(messages=tuple(messages), tools=toolset, settings=settings or ModelSettings())


@dataclass
class _Told:
    response: ModelResponse | None = None


@contextmanager
def _told(name: str, request: ModelRequest) -> Generator[_Told]:
    """Tell the events of one request; whatever its block raises becomes a ModelError."""
    emit(ModelRequested(model=name, messages=len(request.messages), tools=len(request.tools.names)))
    started, told = time.perf_counter(), _Told()
    try:
        yield told
        if told.response is None:
            raise ModelError(f"model {name!r} gave no answer")
    except (asyncio.CancelledError, GeneratorExit):
        emit(ModelFailed(model=name, error="given up by the asker"))
        raise
    except Exception as error:
        failure = error if isinstance(error, ModelError) else ModelError(f"model {name!r}: {_described(error)}")
        emit(ModelFailed(model=name, error=str(failure)))
        if failure is error:
            raise
        raise failure from error
    response = told.response
    emit(
        ModelCompleted(
            model=response.model,
            seconds=time.perf_counter() - started,
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
            finish_reason=response.finish_reason,
        )
    )


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


# -- the switch for tests ----------------------------------------------------------------------------------------

_forbidden = 0  # how many blocks hold; one switch per process, for all its threads


@contextmanager
def forbid_real_requests() -> Generator[None]:
    """Let no model in this process ask a provider, in this block; servers on this machine may be asked.

    Put it around a test run, so that a test that forgot its scripted model fails at once and costs nothing.
    """
    global _forbidden
    _forbidden += 1
    try:
        yield
    finally:
        _forbidden -= 1


def check_request(model: str, host: str) -> None:
    """Refuse a request to another machine while `forbid_real_requests` holds.

    Raises:
        ModelError: it does, and ``host`` is another machine.
    """
    if _forbidden and not _is_loopback(host):
        raise ModelError(
            f"model {model!r}: a request to {host} was stopped, because forbid_real_requests() holds here; "
            "use ScriptedModel or ScriptedOpenAIServer from jianmu.testing, or ask outside that block"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
