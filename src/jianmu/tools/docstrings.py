"""Reads what a docstring says about a function and its parameters: Google, NumPy and Sphinx style."""

from __future__ import annotations

import inspect
import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECTIONS = (
    "Args|Arguments|Parameters|Params|Other Parameters|Keyword Args|Keyword Arguments|Attributes|Returns?|Yields?"
    "|Receives|Raises|Warns|Examples?|Notes?|References|See Also|Todo|Warnings?"
)
_PARAMETERS = frozenset(("Args", "Arguments", "Parameters", "Params", "Other Parameters", "Keyword Args"))
_GOOGLE = re.compile(rf"({_SECTIONS}):\s*")
_NUMPY = re.compile(rf"({_SECTIONS})\s*")
_UNDERLINE = re.compile(r"-{3,}\s*")
_FIELD = re.compile(r":(\w+)(?:\s+([^:]*))?:\s*(.*)")

_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:\s*(.*)")
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")


def parse_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    r"""Split a docstring into its description and what it says of each parameter.

    Args:
        text: the docstring as written, or None.

    Returns:
        The description (all text before the first section or field) and parameter name -> description. Line breaks
        inside a parameter's description become blanks.

    Example:
        >>> parse_docstring("Find files.\n\nArgs:\n    pattern: what to look for.")
        ('Find files.', {'pattern': 'what to look for.'})
    """
    lines = inspect.cleandoc(text or "").splitlines()
    start = next((index for index in range(len(lines)) if _opens_section(lines, index)), len(lines))
    return "\n".join(lines[:start]).strip(), dict(_parameters(lines[start:]))


def _opens_section(lines: list[str], index: int) -> bool:
    line = lines[index]
    return bool(_GOOGLE.fullmatch(line) or _FIELD.match(line) or _is_numpy_title(lines, index))


def _is_numpy_title(lines: list[str], index: int) -> bool:
    followed = index + 1 < len(lines) and _UNDERLINE.fullmatch(lines[index + 1])
    return bool(followed and _NUMPY.fullmatch(lines[index]))


def _parameters(lines: list[str]) -> Iterator[tuple[str, str]]:
    starts = [index for index in range(len(lines)) if _opens_section(lines, index)]
    for start, end in pairwise([*starts, len(lines)]):
        title, body = lines[start], lines[start + 1 : end]
        if field := _FIELD.match(title):
            yield from _sphinx(field, body)
        elif google := _GOOGLE.fullmatch(title):
            yield from _google(body) if google[1] in _PARAMETERS else ()
        elif title.strip() in _PARAMETERS:
            yield from _numpy(body[1:])


def _sphinx(field: re.Match[str], body: list[str]) -> Iterator[tuple[str, str]]:
    kind, argument, first = field.groups()
    if kind in ("param", "parameter", "arg", "argument", "key", "keyword") and argument:
        yield argument.split()[-1].lstrip("*"), _joined([first, *body])


def _google(body: list[str]) -> Iterator[tuple[str, str]]:
    for line, rest in _entries(body):
        if entry := _GOOGLE_ENTRY.fullmatch(line.strip()):
            yield entry[1], _joined([entry[2], *rest])


def _numpy(body: list[str]) -> Iterator[tuple[str, str]]:
    for line, rest in _entries(body):
        if entry := _NUMPY_ENTRY.fullmatch(line.strip()):
            for name in entry[1].split(","):
                yield name.strip().lstrip("*"), _joined(rest)


def _entries(body: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Cut a section where its least indented lines begin."""
    depths = [_depth(line) for line in body if line.strip()]
    starts = [index for index, line in enumerate(body) if line.strip() and _depth(line) == min(depths)]
    for start, end in pairwise([*starts, len(body)]):
        yield body[start], body[start + 1 : end]


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())
