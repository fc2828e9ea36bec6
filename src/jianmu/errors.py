"""Every exception Jianmu raises.

::

    JianmuError
    ├── ConfigurationError            (also ValueError)    a setting is wrong; raised when it is made
    ├── MissingExtraError             (also ImportError)   an optional package is not installed
    ├── NamespaceError                (also ValueError)    a namespace or one of its labels cannot be used
    ├── SerializationError            (also TypeError)     a value cannot be stored and read back equal; names its path
    ├── StateError
    │   ├── StateNotInitializedError                       the state was used before ``initialize``
    │   ├── UnknownFieldError         (also KeyError)      the schema has no such field
    │   ├── StateValidationError      (also ValueError)    a value does not fit its field
    │   ├── ReducerError                                   a reducer raised
    │   └── MigrationError                                 an older state could not be brought to the current schema
    ├── CheckpointError
    │   ├── CheckpointSaveError                            nothing was written; the previous checkpoint is intact
    │   ├── CheckpointLoadError                            stored data is there but cannot be read
    │   ├── CheckpointVersionError                         stored by a newer Jianmu than this one
    │   ├── CheckpointNotFoundError   (also LookupError)   no such thread or step
    │   ├── ThreadLockedError                              another runner works on this thread
    │   ├── StaleWriterError                               this writer lost the thread to another one
    │   └── DecryptionError                                wrong key, or the stored bytes were changed or moved
    ├── RestoreError
    │   └── TreeChangedError                               STRICT restore met another tree; carries the difference
    ├── RunnerError
    │   ├── TreeInUseError                                 one tree, two runners
    │   ├── InvalidTreeError                               a node cannot run as it is placed
    │   ├── LeafError                                      a leaf raised or returned no Status; names the node
    │   ├── ApprovalError
    │   │   ├── UnknownRequestError   (also KeyError)      no request has this id
    │   │   └── RequestDecidedError                        the request was decided, expired or cancelled before
    │   └── EffectInDoubtError                             an effect was started, its outcome is unknown
    ├── ToolError
    │   ├── ToolSchemaError           (also TypeError)     a function cannot be described to a model
    │   ├── ToolArgumentsError        (also ValueError)    the arguments do not fit the tool's schema
    │   ├── UnknownToolError          (also KeyError)      no tool has this name
    │   └── ToolTimeoutError          (also TimeoutError)  the tool did not answer in time
    ├── ContextError
    │   └── ContextOverBudgetError                         the prompt does not fit even at its smallest
    ├── LongTermMemoryError
    │   └── StoreCorruptError                              a store file is damaged; it is left as it is
    └── ModelError                                         a model answered with something unusable

Errors that share a builtin's meaning inherit from it too, so ``except ValueError`` works where people expect it to.
"""

from __future__ import annotations

from typing import Any


class JianmuError(Exception):
    """Base of every error Jianmu raises."""


class ConfigurationError(JianmuError, ValueError):
    """A setting is wrong."""


class MissingExtraError(JianmuError, ImportError):
    """An optional package is not installed.

    Args:
        extra: the extra of ``jianmu`` that brings the package.
        package: the module that could not be imported.
    """

    def __init__(self, extra: str, package: str) -> None:
        self.extra = extra
        self.package = package
        super().__init__(f"this needs the package {package!r}: install it with  pip install 'jianmu[{extra}]'")


class NamespaceError(JianmuError, ValueError):
    """A namespace or one of its labels cannot be used."""


class SerializationError(JianmuError, TypeError):
    """A value cannot be stored and read back equal.

    Args:
        path: where the value sits, such as ``state.profile.avatar[3]``.
        reason: what is wrong with it and what to do.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class StateError(JianmuError):
    """Base of the state manager's errors."""


class StateNotInitializedError(StateError):
    """The state was used before ``initialize``."""


class UnknownFieldError(StateError, KeyError):
    """The schema has no such field."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "unknown field"


class StateValidationError(StateError, ValueError):
    """A value does not fit its field."""


class ReducerError(StateError):
    """A reducer raised; the state is unchanged."""


class MigrationError(StateError):
    """An older state could not be brought to the current schema."""


class CheckpointError(JianmuError):
    """Base of checkpoint errors.

    Args:
        message: what happened and what to do.
        thread_id: the thread concerned.
        step: the step concerned, where one is known.
    """

    def __init__(self, message: str, *, thread_id: str | None = None, step: int | None = None) -> None:
        self.thread_id = thread_id
        self.step = step
        where = ", ".join(
            part
            for part in (
                f"thread {thread_id!r}" if thread_id is not None else "",
                f"step {step}" if step is not None else "",
            )
            if part
        )
        super().__init__(f"{where}: {message}" if where else message)


class CheckpointSaveError(CheckpointError):
    """Nothing was written; the previous checkpoint is intact."""


class CheckpointLoadError(CheckpointError):
    """Stored data is there but cannot be read."""


class CheckpointVersionError(CheckpointError):
    """The data was stored by a newer Jianmu than this one."""


class CheckpointNotFoundError(CheckpointError, LookupError):
    """There is no such thread, or no such step in it."""


class ThreadLockedError(CheckpointError):
    """Another runner works on this thread."""


class StaleWriterError(CheckpointError):
    """This writer lost the thread to another one; its save was refused, not merged."""


class DecryptionError(CheckpointError):
    """The key is wrong, or the stored bytes were changed or moved."""


class RestoreError(JianmuError):
    """A checkpoint could not be restored."""


class TreeChangedError(RestoreError):
    """STRICT restore met a tree other than the one that was saved.

    Args:
        difference: lines that name what was added, removed or changed.
    """

    def __init__(self, difference: list[str]) -> None:
        self.difference = difference
        super().__init__(
            "the tree is not the one that was saved; use RestorePolicy.AUTO to keep what still fits:\n  "
            + "\n  ".join(difference)
        )


class RunnerError(JianmuError):
    """Base of the runner's errors."""


class TreeInUseError(RunnerError):
    """One tree was given to two runners."""


class InvalidTreeError(RunnerError):
    """A node cannot run as it is placed."""


class LeafError(RunnerError):
    """A leaf raised, or returned something that is no Status.

    Args:
        path: the node's path in the tree.
        reason: what happened.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"node {path!r}: {reason}")


class ApprovalError(RunnerError):
    """Base of errors about approval requests."""


class UnknownRequestError(ApprovalError, KeyError):
    """No request has this id."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "unknown request"


class RequestDecidedError(ApprovalError):
    """The request was decided, expired or cancelled before; decisions are single-use."""


class EffectInDoubtError(RunnerError):
    """An effect was started before a crash and its outcome is unknown.

    Args:
        key: the effect's journal key.
        message: what to do about it.
    """

    def __init__(self, key: str, message: str) -> None:
        self.key = key
        super().__init__(f"effect {key!r}: {message}")


class ToolError(JianmuError):
    """Base of tool errors."""


class ToolSchemaError(ToolError, TypeError):
    """A function cannot be described to a model."""


class ToolArgumentsError(ToolError, ValueError):
    """The arguments do not fit the tool's schema.

    Args:
        tool: the tool's name.
        problems: one mapping per problem with ``path``, ``message`` and ``received``.
    """

    def __init__(self, tool: str, problems: list[dict[str, Any]]) -> None:
        self.tool = tool
        self.problems = problems
        lines = "; ".join(f"{p['path']}: {p['message']} (received {p['received']!r})" for p in problems)
        super().__init__(f"tool {tool!r}: {lines}")


class UnknownToolError(ToolError, KeyError):
    """No tool has this name."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "unknown tool"


class ToolTimeoutError(ToolError, TimeoutError):
    """The tool did not answer in time."""


class ContextError(JianmuError):
    """Base of context building errors."""


class ContextOverBudgetError(ContextError):
    """The prompt does not fit the budget even at its smallest."""


class LongTermMemoryError(JianmuError):
    """A long-term memory backend failed."""


class StoreCorruptError(LongTermMemoryError):
    """A store file is damaged; it is left as it is."""


class ModelError(JianmuError):
    """A model answered with something unusable."""
