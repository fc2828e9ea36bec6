"""Chat models behind one protocol."""

from jianmu.models.base import (
    BaseChatModel,
    ChatModel,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    StreamPart,
    TextDelta,
    Usage,
    forbid_real_requests,
)
from jianmu.models.openai import OpenAIChatModel

__all__ = [
    "BaseChatModel",
    "ChatModel",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "OpenAIChatModel",
    "StreamPart",
    "TextDelta",
    "Usage",
    "forbid_real_requests",
]
