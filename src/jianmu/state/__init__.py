"""What a run holds: typed fields, reducers, staged writes."""

from jianmu.state.dump import FieldChange, StateDump
from jianmu.state.manager import StateManager
from jianmu.state.reducers import Ephemeral, append, keep_last, merge, union
from jianmu.state.staging import Stage, current_stage, staged

__all__ = [
    "Ephemeral",
    "FieldChange",
    "Stage",
    "StateDump",
    "StateManager",
    "append",
    "current_stage",
    "keep_last",
    "merge",
    "staged",
    "union",
]
