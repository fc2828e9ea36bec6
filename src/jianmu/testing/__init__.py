"""Suites and tools for tests of code that uses or extends Jianmu.

- `CheckpointerContract`, `LongTermMemoryContract`, `ToolContract`: is my backend right?
- `crash_everywhere`: does my tree survive a crash at any moment?
- `ScriptedModel`, `ScriptedOpenAIServer`: a model that says what I want.
- `recipes`, `TracedTree`: random trees and a precise record of how they tick.

The names below are loaded when they are first used; what needs pytest or Hypothesis says so with the extra ``testing``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jianmu._lazy import lazy_face

if TYPE_CHECKING:
    from jianmu.testing.checkpointers import HOSTILE_THREAD_IDS, CheckpointerContract, checkpointer_contract
    from jianmu.testing.crash import CrashReport, OutsideWorld, SimulatedCrash, crash_everywhere
    from jianmu.testing.long_term import LongTermMemoryContract
    from jianmu.testing.models import FunctionModel, ScriptedModel, ScriptedOpenAIServer
    from jianmu.testing.tools import ToolContract
    from jianmu.testing.trees import TracedTree, build, fake_clock, random_recipe, recipes

__all__ = [
    "HOSTILE_THREAD_IDS",
    "CheckpointerContract",
    "CrashReport",
    "FunctionModel",
    "LongTermMemoryContract",
    "OutsideWorld",
    "ScriptedModel",
    "ScriptedOpenAIServer",
    "SimulatedCrash",
    "ToolContract",
    "TracedTree",
    "build",
    "checkpointer_contract",
    "crash_everywhere",
    "fake_clock",
    "random_recipe",
    "recipes",
]

_CRASH, _TREES, _MODELS = "jianmu.testing.crash", "jianmu.testing.trees", "jianmu.testing.models"
_HOMES = {
    "HOSTILE_THREAD_IDS": "jianmu.testing.checkpointers",
    "CheckpointerContract": "jianmu.testing.checkpointers",
    "CrashReport": _CRASH,
    "FunctionModel": _MODELS,
    "LongTermMemoryContract": "jianmu.testing.long_term",
    "OutsideWorld": _CRASH,
    "ScriptedModel": _MODELS,
    "ScriptedOpenAIServer": _MODELS,
    "SimulatedCrash": _CRASH,
    "ToolContract": "jianmu.testing.tools",
    "TracedTree": _TREES,
    "build": _TREES,
    "checkpointer_contract": "jianmu.testing.checkpointers",
    "crash_everywhere": _CRASH,
    "fake_clock": _TREES,
    "random_recipe": _TREES,
    "recipes": _TREES,
}

__getattr__, __dir__ = lazy_face(__name__, _HOMES)
