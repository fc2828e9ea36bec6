"""What a run returns, and the policies it follows."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from py_trees.common import Status

if TYPE_CHECKING:
    from jianmu.behaviours import ApprovalRequest
    from jianmu.runtime.restore import RestoreReport


class RestorabilityWarning(UserWarning):
    """Names nodes whose hidden state can not be kept in a checkpoint."""


class SuspensionMode(Enum):
    """What a run does when only human decisions can move it on."""

    BLOCK = "block"
    """Wait in this process."""
    YIELD = "yield"
    """Save, then return a result that lists the requests; a later run goes on."""


class LeafErrorPolicy(Enum):
    """What an exception in a leaf becomes."""

    FAIL = "fail"
    """The leaf's FAILURE; the error is kept in `RunResult.errors` and told as ``leaf.failed``. The tree decides."""
    RAISE = "raise"
    """An exception out of ``run``; the last checkpoint is the one before."""


@dataclass(frozen=True, eq=False)
class RunResult:
    """How a run ended. Equal to the `Status` it carries, so that ``result == Status.SUCCESS`` reads as it should.

    Attributes:
        status: the root's status: SUCCESS, FAILURE, or RUNNING when the run was suspended or stopped.
        thread_id: the run's thread.
        step: the last tick's number, counted over all runs of the thread.
        suspended: True when the run waits for the decisions in ``requests``.
        requests: approval requests that are open.
        report: what was restored; None when the run started afresh.
        errors: node path and error of each leaf that raised in this run, in order.
    """

    status: Status
    thread_id: str
    step: int
    suspended: bool = False
    requests: tuple[ApprovalRequest, ...] = ()
    report: RestoreReport | None = None
    errors: tuple[tuple[str, Exception], ...] = field(default=())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Status):
            return self.status == other
        if isinstance(other, RunResult):
            return (self.status, self.thread_id, self.step, self.suspended, self.requests) == (
                other.status, other.thread_id, other.step, other.suspended, other.requests,
            )  # fmt: skip
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.status)
