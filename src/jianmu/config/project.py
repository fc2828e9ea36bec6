"""The project's settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from jianmu.errors import ConfigurationError

Backend: TypeAlias = Literal["file", "memory", "null", "sqlite", "postgres", "redis"]
Durability: TypeAlias = Literal["sync", "async", "exit"]

BACKENDS: tuple[str, ...] = get_args(Backend)
DURABILITIES: tuple[str, ...] = get_args(Durability)
DEFAULT_CHECKPOINT_DIRECTORY = ".outputs/jianmu/checkpoints"


@dataclass(frozen=True, kw_only=True)
class RuntimeCheckpointConfig:
    """How a runner saves when it is given no checkpointer.

    Attributes:
        enabled: make a checkpointer of this configuration; False runs one-shot and saves nothing.
        backend: ``file``, ``memory``, ``null``, ``sqlite``, ``postgres`` or ``redis``.
        interval: save every so many ticks, at least 1.
        url: where ``sqlite`` (a path), ``postgres`` or ``redis`` (a URL) store; needed for the latter two.
        directory: folder of the ``file`` backend.
        fsync: whether the ``file`` backend waits until a save survives a loss of power.
        keep_last: how many checkpoints per thread the ``file`` backend keeps; None for all.
        durability: ``sync``, ``async`` or ``exit``, see `jianmu.ReactiveRunner.run`.

    Raises:
        ConfigurationError: a setting makes no sense; raised when the configuration is made.
    """

    enabled: bool = False
    backend: Backend = "file"
    interval: int = 1
    url: str | None = None
    directory: str = DEFAULT_CHECKPOINT_DIRECTORY
    fsync: bool = True
    keep_last: int | None = None
    durability: Durability = "sync"

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ConfigurationError(f"unknown checkpoint backend {self.backend!r}; there are {', '.join(BACKENDS)}")
        if self.durability not in DURABILITIES:
            raise ConfigurationError(f"unknown durability {self.durability!r}; there are {', '.join(DURABILITIES)}")
        if type(self.interval) is not int or self.interval < 1:
            raise ConfigurationError(f"checkpoint interval is {self.interval!r}; it must be a whole number, at least 1")
        if self.keep_last is not None and (type(self.keep_last) is not int or self.keep_last < 1):
            raise ConfigurationError(f"keep_last is {self.keep_last!r}; keep at least 1 checkpoint, or None for all")
        if self.backend in ("postgres", "redis") and not self.url:
            raise ConfigurationError(f"checkpoint backend {self.backend!r} needs url=...")


@dataclass(frozen=True, kw_only=True)
class ProjectConfig:
    """All settings of a project.

    Attributes:
        checkpoint: how runs are saved.
    """

    checkpoint: RuntimeCheckpointConfig = field(default_factory=RuntimeCheckpointConfig)
