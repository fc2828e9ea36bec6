"""Every numbered requirement is named by at least one test."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
NUMBERS = range(1, 50)


def named() -> set[int]:
    found: set[int] = set()
    for path in TESTS.rglob("*.py"):
        if path != Path(__file__):
            text = path.read_text(encoding="utf-8")
            found.update(map(int, re.findall(r"\bR(\d{1,2})\b", text)))
            for first, last in re.findall(r"\bR(\d{1,2})\.\.R(\d{1,2})\b", text):
                found.update(range(int(first), int(last) + 1))
    return found


def test_every_requirement_has_a_test():
    assert sorted(set(NUMBERS) - named()) == []
