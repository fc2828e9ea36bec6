"""The examples about tools and prompts print what they promise, without key or network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

PROMISES = {
    "10_tools_from_functions": [
        "ship - Ship a parcel.",
        "1 x tea to 上海, fast",
        "{'path': 'to.city', 'message': 'is required', 'received': None}",
    ],
    "11_tool_set": [
        "multiply: 42.0",
        'lookup: {"chinese":"树","word":"tree"}',
        '"exception":"KeyError"',
        '"type":"invalid_arguments"',
        "did you mean 'lookup'?",
        '"type":"invalid_json"',
        "{'lookup': 1, 'multiply': 2}",
    ],
    "12_tool_class_and_approval": [
        "ask a person about: ['call-2']",
        "not_approved",
        "sent 5000 to Wang (key session-42/pay/1/1)",
    ],
    "13_tool_formats": ["OpenAI: ", '"strict": true', '"input_schema"', '"nullable": true', '"inputSchema"'],
    "14_context_in_a_budget": [
        "128000 tokens: 401 messages",
        "0 results cleared, 0 groups left out",
        "  3000 tokens: ",
        "stored: 4 new messages",
    ],
    "15_context_parts": [
        "[system] You sell tea.",
        "[user] Which tea did I like?",
        '"type":"interrupted"',
        "The user drinks green tea",
        "It is nine in the morning.",
    ],
    "16_summaries": ["summary made, ", "questions, from 'What about number 0?'", "summary stored, "],
}


@pytest.mark.parametrize("name", PROMISES)
def test_example(name: str, tmp_path: Path) -> None:
    """R45, R46, R47: each example shows its promises, in this order, and leaves nothing behind."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py"],
        cwd=tmp_path,
        env=os.environ | {"HOME": str(tmp_path), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    rest = ran.stdout
    for promise in PROMISES[name]:
        before, found, rest = rest.partition(promise)
        assert found, f"{promise!r} is not in {before!r}"
    assert list(tmp_path.iterdir()) == []
