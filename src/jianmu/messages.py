"""What is said between a user, a model and its tools.

A `Message` is frozen: a conversation grows by new messages, it is never edited in place. That is what lets the state
keep ten thousand of them without copying or checking them again.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, JsonValue

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
Content: TypeAlias = str | list[dict[str, JsonValue]]


def _call_id() -> str:
    return f"call_{uuid4().hex}"


class ToolCall(BaseModel):
    """A model's wish to call a tool.

    Attributes:
        id: joins the call with its result; unique within a conversation for most models, but not for all.
        name: the tool's name.
        arguments: the decoded arguments. When a model sends text that is not a JSON object, the text is kept in
            ``raw_arguments`` and this is empty.
        raw_arguments: the undecodable text, else None.
    """

    model_config = ConfigDict(frozen=True)

    id: str = Field(default_factory=_call_id)
    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    raw_arguments: str | None = None


class Message(BaseModel):
    """One message of a conversation.

    Attributes:
        role: who speaks: ``system``, ``user``, ``assistant`` or ``tool``.
        content: text, or a list of content blocks such as ``{"type": "text", "text": "..."}``.
        name: the speaker's name; for a tool result the tool's name.
        tool_calls: calls that an assistant asks for.
        tool_call_id: for a tool result, the call it answers.
        metadata: anything that belongs to the message and is not shown to the model.

    Example:
        >>> Message.user("Where is my order?").text
        'Where is my order?'
    """

    model_config = ConfigDict(frozen=True)

    role: Role
    content: Content = ""
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    @classmethod
    def system(cls, content: Content, **fields: Any) -> Message:
        """Make a system message."""
        return cls(role="system", content=content, **fields)

    @classmethod
    def user(cls, content: Content, **fields: Any) -> Message:
        """Make a user message."""
        return cls(role="user", content=content, **fields)

    @classmethod
    def assistant(
        cls, content: Content = "", tool_calls: list[ToolCall] | tuple[ToolCall, ...] = (), **fields: Any
    ) -> Message:
        """Make an assistant message, with the tool calls it asks for."""
        return cls(role="assistant", content=content, tool_calls=tuple(tool_calls), **fields)

    @classmethod
    def tool_result(cls, tool_call_id: str, content: Content, name: str | None = None, **fields: Any) -> Message:
        """Make the answer to one tool call."""
        return cls(role="tool", content=content, tool_call_id=tool_call_id, name=name, **fields)

    @property
    def text(self) -> str:
        """The message's text: the content itself, or its text blocks joined by line breaks."""
        if isinstance(self.content, str):
            return self.content
        texts = (block.get("text") for block in self.content)
        return "\n".join(text for text in texts if isinstance(text, str))
