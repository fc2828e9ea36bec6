"""What a model may call: tools, sets of them, and their descriptions for each provider."""

from jianmu.tools.base import ApprovalRule, Effect, Tool, ToolContext
from jianmu.tools.decorator import FunctionTool, ToolSettings, tool
from jianmu.tools.formats import to_anthropic, to_gemini, to_mcp, to_openai
from jianmu.tools.results import canonical_json, error_text, result_text
from jianmu.tools.toolset import ToolSet

__all__ = [
    "ApprovalRule",
    "Effect",
    "FunctionTool",
    "Tool",
    "ToolContext",
    "ToolSet",
    "ToolSettings",
    "canonical_json",
    "error_text",
    "result_text",
    "to_anthropic",
    "to_gemini",
    "to_mcp",
    "to_openai",
    "tool",
]
