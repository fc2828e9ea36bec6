"""How large a prompt may be, and how large it is."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from jianmu._extras import extra
from jianmu.errors import ConfigurationError
from jianmu.text import estimate_tokens
from jianmu.tools.formats import to_openai
from jianmu.tools.results import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jianmu.messages import Message
    from jianmu.tools.base import Tool

_PER_MESSAGE = 4
"""Tokens that frame a message: its role and its borders."""
_PER_CALL = 8
"""Tokens that frame a tool call: its id and its borders."""
_PER_MEDIUM = 1_000
"""Tokens of an image, a sound or a file, whose size in a prompt does not follow from its length."""
_DEFAULT_RESERVE = 8_192


@runtime_checkable
class TokenCounter(Protocol):
    """Says how many tokens a text is."""

    def count(self, text: str) -> int:
        """Return the number of tokens; the same for the same text."""
        ...


class EstimateTokenCounter:
    """Estimates without a vocabulary; knows that a Chinese character is about a token. Needs no package."""

    def count(self, text: str) -> int:
        """Return the estimated number of tokens."""
        return estimate_tokens(text)


class TiktokenCounter:
    """Counts with one of OpenAI's vocabularies, by the ``tiktoken`` package.

    The package fetches a vocabulary from the network when it is first used, and caches it.

    Args:
        encoding: the name of a vocabulary, or a ``tiktoken.Encoding``.

    Raises:
        MissingExtraError: ``tiktoken`` is not installed.
    """

    def __init__(self, encoding: Any = "o200k_base") -> None:
        with extra("tiktoken"):
            package = import_module("tiktoken")
        self._encoding: Any = package.get_encoding(encoding) if isinstance(encoding, str) else encoding

    def count(self, text: str) -> int:
        """Return the number of tokens; names of special tokens are counted as plain text."""
        return len(self._encoding.encode_ordinary(text))


@dataclass(frozen=True, kw_only=True)
class TokenBudget:
    """How many tokens a request may take.

    Args:
        limit: the model's context window, in tokens.
        reserve: what is kept free for the answer; an eighth of the limit, at most 8,192, when omitted.

    Raises:
        ConfigurationError: the reserve leaves nothing for the prompt, or is negative.
    """

    limit: int
    reserve: int = -1

    def __post_init__(self) -> None:
        if self.reserve == -1:
            object.__setattr__(self, "reserve", min(_DEFAULT_RESERVE, self.limit // 8))
        if not 0 <= self.reserve < self.limit:
            raise ConfigurationError(
                f"a limit of {self.limit} tokens with a reserve of {self.reserve} leaves no prompt"
            )

    @property
    def available(self) -> int:
        """Tokens for the prompt."""
        return self.limit - self.reserve


class Calibration:
    """Learns from the provider's own figures how far the counter is off.

    Args:
        factor: tokens of the provider per counted token, where it is known already.
        weight: how much one report counts against those before it; the first one counts alone.
    """

    LOWEST, HIGHEST = 0.25, 4.0

    def __init__(self, factor: float | None = None, *, weight: float = 0.3) -> None:
        self._factor = factor
        self._weight = weight

    @property
    def factor(self) -> float:
        """Tokens of the provider per counted token; 1 before anything is known."""
        return 1.0 if self._factor is None else self._factor

    def observe(self, counted: int, reported: int) -> None:
        """Learn that a prompt of ``counted`` tokens was ``reported`` as another number of input tokens."""
        if counted <= 0 or reported <= 0:
            return
        seen = min(max(reported / counted, self.LOWEST), self.HIGHEST)
        self._factor = seen if self._factor is None else self._factor + self._weight * (seen - self._factor)


def message_tokens(message: Message, counter: TokenCounter) -> int:
    """Return the tokens of a message: its content, its name, and its calls with their arguments."""
    tokens = _PER_MESSAGE + _content_tokens(message, counter)
    if message.name:
        tokens += counter.count(message.name)
    for call in message.tool_calls:
        arguments = canonical_json(call.arguments) if call.raw_arguments is None else call.raw_arguments
        tokens += _PER_CALL + counter.count(call.name) + counter.count(arguments)
    return tokens


def tools_tokens(tools: Iterable[Tool], counter: TokenCounter) -> int:
    """Return the tokens of the tools' descriptions as they go into a request."""
    return sum(counter.count(canonical_json(described)) for described in to_openai(tools))


def _content_tokens(message: Message, counter: TokenCounter) -> int:
    if isinstance(message.content, str):
        return counter.count(message.content)
    return sum(_block_tokens(block, counter) for block in message.content)


def _block_tokens(block: dict[str, Any], counter: TokenCounter) -> int:
    text = block.get("text")
    if isinstance(text, str):
        return counter.count(text)
    is_medium = any(word in str(block.get("type")) for word in ("image", "audio", "video", "file", "document"))
    return _PER_MEDIUM if is_medium else counter.count(canonical_json(block))
