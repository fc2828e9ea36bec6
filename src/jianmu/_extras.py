"""Turn a missing optional package into an error that says which extra to install."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from jianmu.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def extra(name: str) -> Generator[None]:
    """Import optional packages inside this block.

    Args:
        name: the extra of ``jianmu`` that brings them.

    Raises:
        MissingExtraError: a package imported in the block is not installed.

    Example:
        >>> with extra("redis"):
        ...     import redis
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(name, error.name or name) from error
