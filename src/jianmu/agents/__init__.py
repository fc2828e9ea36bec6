"""Ready-made agent trees."""

from jianmu.agents.react import AskModel, CallTools, ReactState, react_agent

__all__ = [
    "AskModel",
    "CallTools",
    "ReactState",
    "react_agent",
]
