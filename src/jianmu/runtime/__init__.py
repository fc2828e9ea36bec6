"""Runs a behaviour tree, saves it, and resumes it."""

from jianmu.runtime.approval import pending_requests, record_decision
from jianmu.runtime.restore import RestorePolicy, RestoreReport, register_codec, verify_restorable
from jianmu.runtime.result import LeafErrorPolicy, RestorabilityWarning, RunResult, SuspensionMode
from jianmu.runtime.runner import ReactiveRunner

__all__ = [
    "LeafErrorPolicy",
    "ReactiveRunner",
    "RestorabilityWarning",
    "RestorePolicy",
    "RestoreReport",
    "RunResult",
    "SuspensionMode",
    "pending_requests",
    "record_decision",
    "register_codec",
    "verify_restorable",
]
