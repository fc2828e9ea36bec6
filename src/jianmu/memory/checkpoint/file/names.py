"""File names of threads: readable, safe in every folder, and never the same for two threads."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from jianmu.errors import ConfigurationError

_PLAIN = re.compile(r"[a-zA-Z0-9._\-\u4e00-\u9fff]")  # Chinese characters have neither case nor another spelling
_ESCAPED = re.compile(rb"%([0-9a-f]{2})")
# Windows takes these for devices in any folder and with any ending.
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?=\.|$)", re.IGNORECASE)
_MAX_BYTES = 120  # some file systems take 143, and endings are still to come


@lru_cache(maxsize=1024)
def stem_of(thread_id: str) -> str:
    """Return the name of a thread's files, without their ending.

    Lower-case letters, digits, ``.``, ``_``, ``-`` and Chinese characters stand for themselves; everything else is
    written as ``%`` and the hexadecimal bytes of its UTF-8 form. Capital letters stand for themselves too, and behind
    a ``+`` follows a number that tells which letters are capital, so that two names that differ only in case stay
    apart where the file system does not look at case. A long name is cut and ends in ``++`` and its hash.

    Example:
        >>> stem_of("session-42"), stem_of("Session-42"), stem_of("a/b")
        ('session-42', 'Session-42+1', 'a%2fb')

    Raises:
        ConfigurationError: the id is empty or no text.
    """
    if not isinstance(thread_id, str) or not thread_id:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"thread_id is {thread_id!r}; give the thread a name, the same in every process")
    stem = full_stem_of(thread_id)
    if len(stem.encode()) <= _MAX_BYTES:
        return stem
    start = stem.encode()[: _MAX_BYTES // 2].decode(errors="ignore")
    return f"{start}++{hashlib.sha256(stem.encode()).hexdigest()[:40]}"


def full_stem_of(thread_id: str) -> str:
    """Return the name of a thread as `stem_of` does, but never cut: it tells the thread's id whatever its length."""
    escaped = "".join(char if _PLAIN.match(char) else _escape(char) for char in thread_id)
    if escaped.startswith(".") or _DEVICES.match(escaped):
        escaped = _escape(escaped[0]) + escaped[1:]
    capitals = sum(1 << place for place, letter in enumerate(filter(str.isalpha, thread_id)) if letter.isupper())
    return f"{escaped}+{capitals:x}" if re.search("[A-Z]", escaped) else escaped


def thread_of(stem: str) -> str | None:
    """Return the thread that a file's name belongs to; None when the name is cut or was not made by `stem_of`."""
    escaped = stem.partition("+")[0]
    try:
        thread_id = _ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), escaped.encode()).decode(
            "utf-8", "surrogatepass"
        )
    except UnicodeError:
        return None
    return thread_id if thread_id and full_stem_of(thread_id) == stem else None


def is_cut(stem: str) -> bool:
    """Tell whether a name is too short to tell its thread."""
    return "++" in stem


def _escape(char: str) -> str:
    return "".join(f"%{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
