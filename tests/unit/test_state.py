"""The state manager: typed fields, reducers, staging and dumps (R44, R45)."""

import operator
import threading
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum, StrEnum
from ipaddress import IPv4Address
from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator

from jianmu import StateManager
from jianmu.errors import (
    ConfigurationError,
    MigrationError,
    ReducerError,
    SerializationError,
    StateNotInitializedError,
    StateValidationError,
    UnknownFieldError,
)
from jianmu.messages import Message, ToolCall
from jianmu.serialization import same
from jianmu.state import Ephemeral, Stage, append, keep_last, merge, staged, union


class Colour(Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(StrEnum):
    HIGH = "high"


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: list[str] = []


@dataclass
class Point:
    x: int
    y: float


class Everything(BaseModel):
    """Every type R44 lists."""

    moment: datetime | None = None
    amount: Decimal | None = None
    key: UUID | None = None
    raw: bytes = b""
    colour: Colour | None = None
    level: Level = Level.HIGH
    tags: set[str] = set()
    pair: tuple[int, str] = (0, "")
    by_number: dict[int, str] = {}
    pet: Cat | Dog | None = Field(default=None, discriminator="kind")
    point: Point | None = None
    big: int = 0
    text: str = ""
    number: float = 0.0
    either: int | str | float | datetime = 0
    address: IPv4Address | None = None
    anything: Any = None
    messages: Annotated[list[Message], append] = []


class Chat(BaseModel):
    topic: str = ""
    lines: Annotated[list[str], append] = []
    total: Annotated[int, operator.add] = 0
    facts: Annotated[dict[str, int], merge] = {}
    scratch: Annotated[dict[str, int], Ephemeral] = {}


def started(schema: type[BaseModel], data: Any = None, **options: Any) -> StateManager:
    state = StateManager(schema, **options)
    state.initialize(data)
    return state


def restored(state: StateManager) -> StateManager:
    """Bring a state through real JSON bytes into a new manager."""
    return started(state.schema, orjson.loads(orjson.dumps(state.dump_checkpoint())))


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=5,
)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=ANY_TEXT,
    tool_calls=st.lists(
        st.builds(ToolCall, name=ANY_TEXT, arguments=st.dictionaries(ANY_TEXT, JSON, max_size=2)), max_size=2
    ).map(tuple),
    metadata=st.dictionaries(ANY_TEXT, JSON, max_size=2),
)
STATES = st.fixed_dictionaries(
    {},
    optional={
        "moment": st.datetimes(timezones=st.none() | st.timezones()),
        "amount": st.decimals(allow_nan=False, allow_infinity=False),
        "key": st.uuids(),
        "raw": st.binary(max_size=9),
        "colour": st.sampled_from(Colour),
        "level": st.sampled_from(Level),
        "tags": st.sets(ANY_TEXT, max_size=3),
        "pair": st.tuples(st.integers(), ANY_TEXT),
        "by_number": st.dictionaries(st.integers(), ANY_TEXT, max_size=3),
        "pet": st.builds(Cat, lives=st.integers()) | st.builds(Dog, tricks=st.lists(ANY_TEXT, max_size=2)),
        "point": st.builds(Point, x=st.integers(), y=st.floats(allow_nan=False)),
        "big": st.integers(),
        "text": ANY_TEXT,
        "number": st.floats(),
        "either": st.integers() | ANY_TEXT | st.floats() | st.datetimes(),
        "address": st.ip_addresses(v=4),
        "anything": JSON | st.tuples(st.integers()) | st.datetimes() | st.binary(max_size=3),
        "messages": st.lists(MESSAGES, max_size=3),
    },
)


@given(STATES)
def test_every_type_comes_back_equal(values):
    """R44: dump, JSON, initialize gives an equal state of the same types."""
    state = started(Everything, values)
    assert same(restored(state).snapshot(), state.snapshot())


@given(st.lists(st.lists(MESSAGES, min_size=1, max_size=2), max_size=4), STATES)
def test_a_dump_after_any_updates_equals_a_dump_from_scratch(batches, values):
    """R44, R45: what the dump remembers never makes it differ from a fresh one."""
    state = started(Everything)
    for batch in batches:
        state.dump_checkpoint()
        state.update(messages=batch)
    state.update(values)
    assert state.dump_checkpoint() == started(Everything, state.snapshot()).dump_checkpoint()


def test_ephemeral_fields_are_not_saved_and_come_back_at_their_default():
    """R44: Ephemeral."""
    state = started(Chat, {"scratch": {"a": 1}})
    assert "scratch" not in state.dump_checkpoint()
    assert restored(state).get("scratch") == {}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"deep": [0, object()]}, "state.anything.deep[1]"),
        (Point(1, 2.0), "state.anything"),
        ({"a": [Cat()]}, "state.anything.a[0]"),
        (Colour.RED, "state.anything"),
    ],
)
def test_what_would_not_come_back_fails_at_dump_time_and_is_named(value, path):
    """R44: the error names the field path."""
    state = started(Everything, {"anything": value})
    with pytest.raises(SerializationError) as caught:
        state.dump_checkpoint()
    assert caught.value.path == path


def test_a_failed_dump_does_not_hide_the_next_good_one():
    state = started(Everything, {"text": "kept"})
    state.update(anything=object())
    with pytest.raises(SerializationError):
        state.dump_checkpoint()
    state.update(anything=1)
    assert restored(state).get("anything") == 1


def test_reducers_join_old_and_new():
    """R44: Annotated reducers."""
    state = started(Chat, {"lines": ["a"], "total": 1, "facts": {"x": 1, "y": 1}})
    state.update(lines="b", total=4, facts={"y": 2}, topic="t")
    state.update(lines=["c", "d"])
    assert state.snapshot() == Chat(lines=["a", "b", "c", "d"], total=5, facts={"x": 1, "y": 2}, topic="t")


def test_ready_made_reducers():
    assert union({1}, {2}) == {1, 2}
    assert keep_last(2)([1, 2], [3]) == [2, 3]
    with pytest.raises(ConfigurationError, match="at least 1"):
        keep_last(0)


@pytest.mark.parametrize("bad", [{"topic": 3}, {"lines": [1]}, {"total": "x"}, {"facts": 1}, {"topc": ""}])
def test_a_bad_update_changes_nothing(bad):
    state = started(Chat, {"topic": "t", "lines": ["a"], "total": 1})
    before = state.snapshot().model_copy(deep=True)
    with pytest.raises((StateValidationError, ReducerError, UnknownFieldError)):
        state.update({"lines": "good", **bad})
    assert state.snapshot() == before


def test_errors_say_what_and_where():
    state = started(Chat)
    with pytest.raises(UnknownFieldError, match=r"Chat has no field 'topik'; did you mean 'topic'\?"):
        state.update(topik="x")
    with pytest.raises(ReducerError, match=r"Chat.total: its reducer add raised TypeError"):
        state.update(total="x")
    with pytest.raises(StateNotInitializedError, match="call initialize"):
        StateManager(Chat).get("topic")
    with pytest.raises(UnknownFieldError):
        state.initialize({"nope": 1})
    with pytest.raises(ConfigurationError, match="pydantic model class"):
        StateManager(dict)


def test_a_frozen_schema_and_two_reducers_are_refused_when_the_manager_is_made():
    class Frozen(BaseModel):
        model_config = ConfigDict(frozen=True)

    class Two(BaseModel):
        a: Annotated[int, max, min] = 0

    with pytest.raises(ConfigurationError, match="frozen"):
        StateManager(Frozen)
    with pytest.raises(ConfigurationError, match="2 reducers"):
        StateManager(Two)


def test_field_validators_and_limits_hold_for_appends_too():
    class Limited(BaseModel):
        few: Annotated[list[int], append, Field(max_length=2)] = []
        shouted: Annotated[list[str], append] = []

        @field_validator("shouted")
        @classmethod
        def shout(cls, value: list[str]) -> list[str]:
            return [text.upper() for text in value]

    state = started(Limited, {"few": [1]})
    state.update(few=2, shouted="a")
    with pytest.raises(StateValidationError):
        state.update(few=3)
    assert state.snapshot() == Limited.model_construct(few=[1, 2], shouted=["A"])


def test_subscribers_hear_of_their_fields_and_can_not_disturb():
    state = started(Chat)
    heard: list[dict[str, Any]] = []
    state.subscribe(lambda changed: 1 / 0)
    unsubscribe = state.subscribe(heard.append, fields=["topic"])
    state.update(topic="a", total=1)
    state.update(total=1)
    unsubscribe()
    state.update(topic="b")
    assert heard == [{"topic": "a"}]
    with pytest.raises(UnknownFieldError):
        state.subscribe(heard.append, fields=["nope"])


def test_staged_writes_are_seen_by_their_leaf_only_until_they_are_committed():
    state = started(Chat, {"lines": ["a"]})
    stage = Stage(state)
    with staged(stage):
        state.update(lines="b", total=2)
        state.update(topic="progress", immediate=True)
        assert (state.get("lines"), state.get("total"), state.get("topic")) == (["a", "b"], 2, "progress")
    assert (state.get("lines"), state.get("total"), state.get("topic")) == (["a"], 0, "progress")
    assert state.dump_checkpoint()["lines"] == ["a"]
    state.update(lines="other")
    state.commit(stage)
    assert (state.get("lines"), state.get("total")) == (["a", "other", "b"], 2)


def test_a_bad_staged_write_fails_in_the_leaf():
    state = started(Chat)
    stage = Stage(state)
    with staged(stage), pytest.raises(StateValidationError):
        state.update(topic=1)
    with staged(stage), pytest.raises(StateValidationError):
        state.update(lines=[1])
    state.commit(stage)
    assert state.snapshot() == Chat()


def test_a_stage_is_for_one_manager_only():
    mine, other = started(Chat), started(Chat)
    with staged(Stage(mine)):
        other.update(topic="now")
    assert other.snapshot().topic == "now"


def test_a_dump_tells_what_changed_and_shares_what_did_not():
    state = started(Chat, {"lines": ["a"], "facts": {"x": 1}})
    first = state.dump_checkpoint()
    state.update(lines=["b", "c"], topic="t")
    second = state.dump_checkpoint()
    assert second.changes == {"lines": ("append", 2), "topic": ("set",)}
    assert (second.previous, second.source) == (first.sequence, first.source)
    assert second["facts"] is first["facts"]
    assert first["lines"] == ["a"], "an older dump must not grow"


def test_a_value_changed_in_place_is_saved_all_the_same():
    state = started(Chat, {"lines": ["a"], "facts": {"x": 1}})
    state.dump_checkpoint()
    state.get("facts")["x"] = 2
    state.get("lines")[0] = "b"
    assert state.dump_checkpoint() == {"topic": "", "lines": ["b"], "total": 0, "facts": {"x": 2}}


def test_older_states_are_migrated_and_newer_ones_refused():
    """R44, R27: schema versions with migration hooks."""

    class Old(BaseModel):
        name: str = "tea"

    class New(BaseModel):
        title: str = ""
        added: int = 7

    def rename(values: dict[str, Any]) -> dict[str, Any]:
        return {"title": values["name"]}

    dump = started(Old).dump_checkpoint()
    new = StateManager(New, version=3, migrations={1: rename})
    new.initialize(dump, restoring=True)
    assert new.snapshot() == New(title="tea", added=7)
    assert restored_by(new, StateManager(New, version=3)) == New(title="tea", added=7)
    with pytest.raises(MigrationError, match="schema version 3, New here has 2"):
        restored_by(new, StateManager(New, version=2))
    with pytest.raises(MigrationError, match="migration from version 1 failed: KeyError"):
        StateManager(New, version=2, migrations={1: rename}).initialize({"nome": 1}, restoring=True)


def restored_by(source: StateManager, target: StateManager) -> Any:
    target.initialize(source.dump_checkpoint(), restoring=True)
    return target.snapshot()


def test_a_stored_field_that_the_schema_lost_is_dropped_with_a_warning(caplog):
    state = StateManager(Chat)
    state.initialize({"topic": "t", "gone": 1}, restoring=True)
    assert state.get("topic") == "t"
    assert "gone" in caplog.text


def test_concurrent_updates_lose_nothing():
    state = started(Chat)

    def write() -> None:
        for _ in range(200):
            state.update(lines="x", total=1)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(state.get("lines")), state.get("total")) == (1600, 1600)
