"""Ready-made agent trees."""

from jianmu.agents.calls import CallTools
from jianmu.agents.react import AskModel, ReactState, react_agent

__all__ = [
    "AskModel",
    "CallTools",
    "ReactState",
    "react_agent",
]
