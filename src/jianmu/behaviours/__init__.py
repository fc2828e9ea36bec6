"""Leaves and loops of an agent's tree."""

from jianmu.behaviours.approval import ApprovalGate
from jianmu.behaviours.base import AsyncBehaviour
from jianmu.behaviours.function import FunctionBehaviour
from jianmu.behaviours.host import NOT_DONE, ApprovalRequest, Decision
from jianmu.behaviours.loops import LoopUntilSuccess

__all__ = [
    "NOT_DONE",
    "ApprovalGate",
    "ApprovalRequest",
    "AsyncBehaviour",
    "Decision",
    "FunctionBehaviour",
    "LoopUntilSuccess",
]
