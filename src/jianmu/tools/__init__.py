"""What a model may call: tools, sets of them, and their descriptions for each provider."""

from jianmu.tools.base import ApprovalRule, Effect, Tool, ToolContext, check_name

__all__ = ["ApprovalRule", "Effect", "Tool", "ToolContext", "check_name"]
