"""What the model sees: the prompt of a request, built from the state within a budget."""

from jianmu.memory.context.budget import (
    Calibration,
    EstimateTokenCounter,
    TiktokenCounter,
    TokenBudget,
    TokenCounter,
)
from jianmu.memory.context.builder import BuilderOptions, ContextBuilder
from jianmu.memory.context.filters import ClearToolResultsFilter, ContextFilter, RoleFilter, WindowFilter
from jianmu.memory.context.groups import Group, flatten, group_messages, repair
from jianmu.memory.context.providers import (
    ContextProvider,
    HistorySource,
    LongTermMemoryProvider,
    Segment,
    SkillTextProvider,
    Stability,
    StateHistoryProvider,
    SystemPromptProvider,
    TextProvider,
    ToolsDescProvider,
)
from jianmu.memory.context.report import BuildReport, BuiltContext, CommonPrefix, common_prefix
from jianmu.memory.context.summary import SummaryHook, make_summary

__all__ = [
    "BuildReport",
    "BuilderOptions",
    "BuiltContext",
    "Calibration",
    "ClearToolResultsFilter",
    "CommonPrefix",
    "ContextBuilder",
    "ContextFilter",
    "ContextProvider",
    "EstimateTokenCounter",
    "Group",
    "HistorySource",
    "LongTermMemoryProvider",
    "RoleFilter",
    "Segment",
    "SkillTextProvider",
    "Stability",
    "StateHistoryProvider",
    "SummaryHook",
    "SystemPromptProvider",
    "TextProvider",
    "TiktokenCounter",
    "TokenBudget",
    "TokenCounter",
    "ToolsDescProvider",
    "WindowFilter",
    "common_prefix",
    "flatten",
    "group_messages",
    "make_summary",
    "repair",
]
