"""Values survive the way to JSON and back (R44)."""

from collections import deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jianmu.errors import SerializationError
from jianmu.serialization import decode, encode, is_immutable, same

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=12)  # with lone surrogates
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=-7, minutes=-30)), ZoneInfo("Asia/Shanghai")])
HASHABLE = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), ANY_TEXT, st.binary(max_size=8), st.uuids(),
    st.decimals(allow_nan=False), st.dates(), st.timedeltas(), st.datetimes(timezones=st.none() | ZONES),
    st.times(timezones=st.none() | st.just(UTC)),
)  # fmt: skip
VALUES = st.recursive(
    HASHABLE | st.floats() | st.complex_numbers(allow_nan=False),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(ANY_TEXT | st.just("$jianmu"), inner, max_size=4),
        st.dictionaries(HASHABLE, inner, max_size=4),
        st.sets(HASHABLE, max_size=4),
        st.frozensets(HASHABLE, max_size=4),
        st.lists(inner, max_size=4).map(lambda items: deque(items, maxlen=5)),
    ),
    max_leaves=12,
)


@given(VALUES)
def test_any_value_comes_back_equal_and_of_the_same_types(value):
    """R44: round trip through real JSON bytes."""
    assert same(decode(orjson.loads(orjson.dumps(encode(value)))), value)


@given(VALUES)
def test_encoding_is_deterministic(value):
    assert orjson.dumps(encode(value)) == orjson.dumps(encode(decode(encode(value))))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ([1], (1,)),
        ({1}, {True}),
        ({"a": 1}, {"a": True}),
        (Decimal("1.0"), Decimal(1)),
    ],
)
def test_same_keeps_apart_what_equality_mixes_up(left, right):
    assert left == right or type(left) is not type(right)
    assert not same(left, right)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [0, {"b": object()}]}, "state.a[1].b"),
        ([lambda: None], "state[0]"),
        ({3: {"x": open}}, "state[3].x"),
    ],
)
def test_what_can_not_be_stored_is_named_by_its_path(value, path):
    """R44: the error names where the value sits."""
    with pytest.raises(SerializationError) as caught:
        encode(value, "state")
    assert caught.value.path == path


def test_a_value_that_contains_itself_is_an_error_not_a_crash():
    loop: list = []
    loop.append(loop)
    with pytest.raises(SerializationError, match="contains itself"):
        encode(loop)


def test_the_deepest_value_that_encodes_is_also_written():
    value: list = []
    for _ in range(198):
        value = [value]
    assert decode(orjson.loads(orjson.dumps(encode(value)))) == value


@pytest.mark.parametrize("data", [{"$jianmu": ["os.system", "true"]}, {"$jianmu": 3}, {"$jianmu": ["uuid", "x"]}])
def test_data_that_names_something_unknown_is_refused(data):
    with pytest.raises(SerializationError, match="cannot read"):
        decode(data)


def test_immutable_means_all_the_way_down():
    atoms = [None, 1, "a", b"", date(2026, 1, 1), time(1), UUID(int=1), Path("x"), datetime(2026, 1, 1, tzinfo=UTC)]
    assert all(map(is_immutable, atoms))
    assert is_immutable((1, ("a", frozenset({2}))))
    assert not is_immutable((1, [2]))
    assert not is_immutable({})
