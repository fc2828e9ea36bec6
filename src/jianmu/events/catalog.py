"""Every event and its payload, on one page.

A payload is a frozen dataclass; its class attribute ``type`` is the event's type. The bus puts it into a
`jianmu.events.RuntimeEvent` together with where and when it happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True)
class EventPayload:
    """Base of all payloads."""

    type: ClassVar[str]


# -- run: a call of ReactiveRunner.run --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RunStarted(EventPayload):
    """A run begins, after a restore if there was one.

    Attributes:
        thread_id: the run's thread.
        root: name of the tree's root.
        restored: whether it goes on from a checkpoint.
    """

    type = "run.started"
    thread_id: str
    root: str
    restored: bool


@dataclass(frozen=True, kw_only=True)
class RunFinished(EventPayload):
    """The root is no longer RUNNING.

    Attributes:
        thread_id: the run's thread.
        status: the root's Status name.
        step: the last tick's number.
    """

    type = "run.finished"
    thread_id: str
    status: str
    step: int


@dataclass(frozen=True, kw_only=True)
class RunSuspended(EventPayload):
    """The run returned before the root was done, and can be resumed.

    Attributes:
        thread_id: the run's thread.
        step: the last tick's number.
        requests: ids of the approval requests it waits for; empty when it was stopped.
    """

    type = "run.suspended"
    thread_id: str
    step: int
    requests: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RunFailed(EventPayload):
    """The run raised.

    Attributes:
        thread_id: the run's thread.
        step: the last whole tick's number.
        error: what it raised.
    """

    type = "run.failed"
    thread_id: str
    step: int
    error: str


# -- tick, node, state -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TickFinished(EventPayload):
    """One tick of the tree is over.

    Attributes:
        step: its number.
        status: the root's Status name.
    """

    type = "tick.finished"
    step: int
    status: str


@dataclass(frozen=True, kw_only=True)
class NodeStatusChanged(EventPayload):
    """A node ended a tick with another status than the one before.

    Attributes:
        path: the node's path.
        old: Status name before.
        new: Status name now.
    """

    type = "node.status"
    path: str
    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class StateUpdated(EventPayload):
    """Fields of the state were changed.

    Attributes:
        fields: their names.
    """

    type = "state.updated"
    fields: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LeafFailed(EventPayload):
    """A leaf raised.

    Attributes:
        path: the leaf's path.
        error: the exception's text.
        error_type: the exception's class name.
    """

    type = "leaf.failed"
    path: str
    error: str
    error_type: str


@dataclass(frozen=True, kw_only=True)
class RunnerStalled(EventPayload):
    """The tree goes round in circles: the same statuses again and again, and no change of the state.

    Attributes:
        waits: what it waits for, in words.
    """

    type = "runner.stalled"
    waits: tuple[str, ...]


# -- checkpoint ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CheckpointSaved(EventPayload):
    """A checkpoint was stored.

    Attributes:
        thread_id: its thread.
        step: its tick number.
        forced: False for the periodic save after a tick, True for one made at once.
    """

    type = "checkpoint.saved"
    thread_id: str
    step: int
    forced: bool


@dataclass(frozen=True, kw_only=True)
class CheckpointRestored(EventPayload):
    """A run goes on from a checkpoint.

    Attributes:
        thread_id: its thread.
        has_state: whether it held a state.
        has_tree_state: whether it held node statuses.
        step: its tick number.
        restored: how many nodes were restored.
        new: paths of nodes that the saved tree did not have.
        dropped: paths that this tree no longer has.
        warnings: what could not be restored exactly.
    """

    type = "checkpoint.restored"
    thread_id: str
    has_state: bool
    has_tree_state: bool
    step: int
    restored: int
    new: tuple[str, ...]
    dropped: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CheckpointFailed(EventPayload):
    """A checkpoint could not be stored; the one before is intact.

    Attributes:
        thread_id: its thread.
        step: its tick number.
        error: what went wrong.
    """

    type = "checkpoint.failed"
    thread_id: str
    step: int
    error: str


# -- approval: a human decides ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ApprovalRequested(EventPayload):
    """A leaf waits for a decision; told again on each resume.

    Attributes:
        request_id: names the request, the same after a restart.
        tool: what is asked for.
        args: its arguments.
        path: the leaf's path.
    """

    type = "approval.requested"
    request_id: str
    tool: str
    args: dict[str, Any]
    path: str


@dataclass(frozen=True, kw_only=True)
class ApprovalDecided(EventPayload):
    """A request was decided.

    Attributes:
        request_id: the request.
        decision: ``approved``, ``denied`` or ``cancelled``.
        by: who decided.
    """

    type = "approval.decided"
    request_id: str
    decision: str
    by: str


@dataclass(frozen=True, kw_only=True)
class ApprovalExpired(EventPayload):
    """Nobody decided a request in time.

    Attributes:
        request_id: the request.
    """

    type = "approval.expired"
    request_id: str


# -- effect: what is done to the outside world -----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class EffectStarted(EventPayload):
    """An effect is about to happen; that is saved already.

    Attributes:
        key: the effect's key within its leaf.
        path: the leaf's path.
    """

    type = "effect.started"
    key: str
    path: str


@dataclass(frozen=True, kw_only=True)
class EffectFinished(EventPayload):
    """An effect happened; its result is saved. The attributes are those of `EffectStarted`."""

    type = "effect.finished"
    key: str
    path: str


@dataclass(frozen=True, kw_only=True)
class EffectReused(EventPayload):
    """An effect had happened before a crash; its saved result was used. Attributes as for `EffectStarted`."""

    type = "effect.reused"
    key: str
    path: str


@dataclass(frozen=True, kw_only=True)
class EffectInDoubt(EventPayload):
    """An effect had started before a crash and has no result. Attributes as for `EffectStarted`."""

    type = "effect.in_doubt"
    key: str
    path: str


# -- tool ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ToolStarted(EventPayload):
    """A tool is called.

    Attributes:
        tool: its name.
        call_id: the model's call id.
        arguments: what it is called with.
    """

    type = "tool.started"
    tool: str
    call_id: str
    arguments: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ToolFinished(EventPayload):
    """A tool answered.

    Attributes:
        tool: its name.
        call_id: the model's call id.
        seconds: how long it took.
        chars: length of the answer's text.
    """

    type = "tool.finished"
    tool: str
    call_id: str
    seconds: float
    chars: int


@dataclass(frozen=True, kw_only=True)
class ToolFailed(EventPayload):
    """A tool could not be called, or raised; the model is told.

    Attributes:
        tool: its name.
        call_id: the model's call id.
        error: what went wrong.
    """

    type = "tool.failed"
    tool: str
    call_id: str
    error: str


# -- model -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ModelRequested(EventPayload):
    """A model is asked.

    Attributes:
        model: its name.
        messages: how many messages it is sent.
        tools: how many tools it may call.
    """

    type = "model.requested"
    model: str
    messages: int
    tools: int


@dataclass(frozen=True, kw_only=True)
class ModelCompleted(EventPayload):
    """A model answered.

    Attributes:
        model: its name.
        seconds: how long it took.
        input_tokens: tokens of the prompt, if the provider tells.
        output_tokens: tokens of the answer, if the provider tells.
        finish_reason: why it stopped, if the provider tells.
    """

    type = "model.completed"
    model: str
    seconds: float
    input_tokens: int | None
    output_tokens: int | None
    finish_reason: str | None


@dataclass(frozen=True, kw_only=True)
class ModelDelta(EventPayload):
    """A piece of a streamed answer; it never passes through the state.

    Attributes:
        model: its name.
        text: the piece.
    """

    type = "model.delta"
    model: str
    text: str


@dataclass(frozen=True, kw_only=True)
class ModelFailed(EventPayload):
    """A model could not be asked or gave no usable answer.

    Attributes:
        model: its name.
        error: what went wrong.
    """

    type = "model.failed"
    model: str
    error: str


# -- memory: long-term memory ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MemoryAdded(EventPayload):
    """Something was recorded.

    Attributes:
        namespace: where.
        memory_id: its id, if the backend gives one at once.
        key: its key, if it has one.
    """

    type = "memory.added"
    namespace: tuple[str, ...]
    memory_id: str | None
    key: str | None


@dataclass(frozen=True, kw_only=True)
class MemorySearched(EventPayload):
    """Memory was searched.

    Attributes:
        namespace: where.
        query: for what.
        results: how many memories were found.
    """

    type = "memory.searched"
    namespace: tuple[str, ...]
    query: str
    results: int


@dataclass(frozen=True, kw_only=True)
class MemoryFailed(EventPayload):
    """A memory operation raised.

    Attributes:
        operation: ``add`` or ``search``.
        namespace: where.
        error: what it raised.
    """

    type = "memory.failed"
    operation: str
    namespace: tuple[str, ...]
    error: str
