"""Namespaces: tuples of labels such as ``("agent", "thread")`` that keep one tenant's memories from another's.

Two different namespaces never have the same encoded form: labels are percent-encoded outside ``A-Z a-z 0-9 _ . -``
before they are joined by ``/``, so that ``("a/b",)`` and ``("a", "b")`` stay apart and no label can act as a wildcard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from jianmu.errors import NamespaceError

if TYPE_CHECKING:
    from collections.abc import Iterable

Namespace: TypeAlias = tuple[str, ...]

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")


def validate(namespace: Any) -> Namespace:
    """Check a namespace and return it as a tuple.

    Args:
        namespace: a tuple or list of non-empty text labels; ``()`` is the root.

    Raises:
        NamespaceError: it is not a sequence of non-empty text labels (a bare string is a common slip).
    """
    if not isinstance(namespace, (tuple, list)):
        raise NamespaceError(f"a namespace is a tuple of labels such as ('agent', 'thread'), not {namespace!r}")
    labels: tuple[Any, ...] = tuple(namespace)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    for position, label in enumerate(labels):
        if not isinstance(label, str):
            raise NamespaceError(f"label {position} of namespace {labels!r} is {type(label).__name__}, not str")
        if not label:
            raise NamespaceError(f"label {position} of namespace {labels!r} is empty")
    return labels


def encode_label(label: str) -> str:
    """Percent-encode one label; letters, digits, ``_``, ``.`` and ``-`` stay as they are."""
    return "".join(
        char if char in _PLAIN else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        for char in label
    )


def encode(namespace: Iterable[str]) -> str:
    """Encode a namespace as one unambiguous text.

    Example:
        >>> encode(("agent", "thread"))
        'agent/thread'
        >>> encode(("a/b", "用户"))
        'a%2Fb/%E7%94%A8%E6%88%B7'
    """
    return "/".join(encode_label(label) for label in validate(tuple(namespace)))


def decode(text: str) -> Namespace:
    """Read back what `encode` wrote."""
    return tuple(unquote(part, errors="surrogatepass") for part in text.split("/")) if text else ()


def nest(base: Namespace, sub: Any) -> Namespace:
    """Put a namespace below another one; the result never leaves ``base``.

    Args:
        base: the namespace that is the border.
        sub: labels below it. A label is only ever a name: ``".."`` has no meaning of "up".

    Example:
        >>> nest(("agent",), ("..", "prefs"))
        ('agent', '..', 'prefs')
    """
    return validate(base) + validate(sub)


def contains(base: Namespace, other: Namespace) -> bool:
    """Tell whether ``other`` is ``base`` or lies below it, label by label."""
    return other[: len(base)] == base
