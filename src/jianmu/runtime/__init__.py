"""Runs a behaviour tree, saves it, and resumes it."""

from jianmu.runtime.approval import pending_requests, record_decision
from jianmu.runtime.diff import ABSENT, CheckpointDiff, diff_checkpoints
from jianmu.runtime.lint import LintFinding, lint_tree
from jianmu.runtime.restore import (
    NodeCodec,
    RestorePolicy,
    RestoreProblem,
    RestoreReport,
    register_codec,
    verify_restorable,
)
from jianmu.runtime.result import LeafErrorPolicy, RestorabilityWarning, RunResult, SuspensionMode
from jianmu.runtime.runner import ReactiveRunner

__all__ = [
    "ABSENT",
    "CheckpointDiff",
    "LeafErrorPolicy",
    "LintFinding",
    "NodeCodec",
    "ReactiveRunner",
    "RestorabilityWarning",
    "RestorePolicy",
    "RestoreProblem",
    "RestoreReport",
    "RunResult",
    "SuspensionMode",
    "diff_checkpoints",
    "lint_tree",
    "pending_requests",
    "record_decision",
    "register_codec",
    "verify_restorable",
]
