"""What a build gives, what it tells about itself, and how two builds compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from jianmu.tools.formats import to_openai
from jianmu.tools.results import canonical_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jianmu.messages import Message
    from jianmu.tools.toolset import ToolSet


SummaryStatus: TypeAlias = Literal["none", "stored", "made", "failed", "off"]


@dataclass(frozen=True, kw_only=True)
class BuildReport:
    """How a prompt came to be.

    Attributes:
        tokens: tokens by part: ``tools``, ``history``, and each segment by its name.
        available: tokens the prompt may take, reserve already off; None without a budget.
        factor: tokens of the provider per counted token, from the calibration.
        groups: groups in the history, after filters.
        dropped: groups that were left out to fit.
        cleared: groups whose tool results were replaced by a notice to fit.
        omitted: names of the segments that were left out to fit.
        summary: ``"none"``; ``"stored"`` one from the history was used; ``"made"`` by the hook in this build;
            ``"failed"`` the hook was called and failed; ``"off"`` it was not called because it kept failing.
    """

    tokens: dict[str, int]
    available: int | None
    factor: float
    groups: int
    dropped: int
    cleared: int
    omitted: tuple[str, ...]
    summary: SummaryStatus


@dataclass(frozen=True, kw_only=True)
class BuiltContext:
    """A prompt.

    Attributes:
        messages: what goes to the model, in order.
        tools: the tools that go with it; empty for a model without native tools.
        tokens: its size by the counter and the calibration.
        report: how it came to be.
        summary: a summary made in this build, else None. Append it to the history, or the next build makes it again.
    """

    messages: tuple[Message, ...]
    tools: ToolSet
    tokens: int
    report: BuildReport
    summary: Message | None = None

    def __repr__(self) -> str:
        return f"BuiltContext({len(self.messages)} messages, {len(self.tools)} tools, {self.tokens} tokens)"


@dataclass(frozen=True, kw_only=True)
class CommonPrefix:
    """How far two prompts begin alike, which is what a prompt cache saves.

    Attributes:
        messages: how many messages are equal; 0 when the tools differ.
        characters: how many characters of tools and messages are equal.
        share: these characters as a share of the second prompt's, 0 to 1.
    """

    messages: int
    characters: int
    share: float


def common_prefix(before: BuiltContext, after: BuiltContext) -> CommonPrefix:
    """Compare two prompts in the order in which providers read them: tools, then messages."""
    old, new = _pieces(before), _pieces(after)
    equal = _first_difference(old, new)
    characters = sum(map(len, new[:equal]))
    if equal < min(len(old), len(new)):
        characters += _first_difference(old[equal], new[equal])
    return CommonPrefix(messages=max(0, equal - 1), characters=characters, share=characters / sum(map(len, new)))


def _first_difference(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((position for position, (a, b) in pairs if a != b), min(len(old), len(new)))


def _pieces(built: BuiltContext) -> list[str]:
    return [canonical_json(to_openai(built.tools)), *(_piece(message) for message in built.messages)]


def _piece(message: Message) -> str:
    return canonical_json(message.model_dump(mode="json", exclude={"metadata"}))
