"""The envelope: what it has, what is refused, and what can be written."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jianmu.errors import SerializationError
from jianmu.memory import extract_checkpoint_payload, make_checkpoint_envelope
from jianmu.memory.checkpoint.envelope import write_envelope
from jianmu.serialization import same

ODD = st.sampled_from([float("nan"), float("inf"), 2**64, "\ud800", b"x", {1}, 1j, None, 0.5, True])
DATA = st.recursive(
    ODD | st.integers() | st.text(max_size=3) | st.datetimes() | st.uuids() | st.decimals(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=2) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)
DICTS = st.dictionaries(st.text(max_size=3), DATA, max_size=3)


def test_an_envelope_has_four_fields() -> None:
    """R10: step, state, tree or None, runtime metadata or {}."""
    assert make_checkpoint_envelope(1, {"a": 1}) == {"step": 1, "state": {"a": 1}, "tree": None, "runtime_metadata": {}}
    assert make_checkpoint_envelope(2, {}, {"root": "RUNNING"}, {"k": 1}) == {
        "step": 2,
        "state": {},
        "tree": {"root": "RUNNING"},
        "runtime_metadata": {"k": 1},
    }


@pytest.mark.parametrize(
    "stored",
    [
        {"payload": {"step": 1, "state": {}}},
        {"step": 1},
        {"state": {}},
        {"step": None, "state": {}},
        {"step": True, "state": {}},
        {"step": 1.0, "state": {}},
        {"step": 1, "state": None},
        {"step": 1, "state": []},
        *({}, [], "", 0, None, [{"step": 1, "state": {}}]),
    ],
)
def test_another_layout_is_none(stored: Any) -> None:
    """R10 R11: refused silently."""
    assert extract_checkpoint_payload(stored) is None


def test_later_fields_are_kept_and_odd_ones_are_defaults() -> None:
    """R11: an envelope of a later version is readable."""
    stored = {"step": 1, "state": {}, "tree": "none", "runtime_metadata": None, "later": [1]}
    assert extract_checkpoint_payload(stored) == {
        "step": 1,
        "state": {},
        "tree": None,
        "runtime_metadata": {},
        "later": [1],
    }


@given(state=DICTS, metadata=DICTS)
def test_what_is_written_reads_back_equal_and_the_rest_names_its_path(state: Any, metadata: Any) -> None:
    """R18: there is no third way."""
    envelope = make_checkpoint_envelope(1, state, None, metadata)
    try:
        read = orjson.loads(write_envelope(envelope))
    except SerializationError as error:
        part = error.path.partition(".")[0]
        read = envelope if part in ("state", "runtime_metadata") else error
    assert same(read, envelope)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [0, 1, 2, {"b": {1, 2}}]}, "state.a[3].b"),
        ({"a": (1, 2)}, "state.a"),
        ({"a": {"木": [[float("nan")]]}}, "state.a.木[0][0]"),
        ({"a": [{7: "x"}]}, "state.a[0]"),
        ({"a": {7: object()}}, "state.a[7]"),
        ({"a": ["\ud800"]}, "state.a[0]"),
        ({"a": {"b": 2**64}}, "state.a.b"),
    ],
)
def test_the_path_is_that_of_the_innermost_value(value: Any, path: str) -> None:
    """R18."""
    with pytest.raises(SerializationError) as error:
        write_envelope(make_checkpoint_envelope(1, value))
    assert error.value.path == path


def test_what_never_ends_is_refused() -> None:
    """R18: a value that contains itself, or is nested too deeply."""
    itself: dict[str, Any] = {}
    itself["again"] = [itself]
    deep: Any = 1
    for _ in range(2000):
        deep = [deep]
    for value in (itself, {"deep": deep}):
        with pytest.raises(SerializationError, match="state"):
            write_envelope(make_checkpoint_envelope(1, value))


def test_subclasses_of_plain_types_are_equal_to_them() -> None:
    """R18: a dict that has a default is a dict."""
    from collections import OrderedDict, defaultdict
    from enum import IntEnum, StrEnum

    class Color(StrEnum):
        RED = "red"

    class Level(IntEnum):
        LOW = 1

    state = {"a": defaultdict(list, x=[1]), "b": OrderedDict(y=2), "c": Color.RED, "d": Level.LOW}
    assert orjson.loads(write_envelope(make_checkpoint_envelope(1, state)))["state"] == state
