"""Any sequence of dumps reads back equal, whatever changed between them and wherever the keyframes fall."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jianmu.errors import CheckpointLoadError, ConfigurationError
from jianmu.memory.checkpoint.delta import Baseline, Baselines, Chain, KeyframeRule, Picture, Position, Row, read_chain
from jianmu.memory.checkpoint.envelope import make_checkpoint_envelope
from jianmu.state import StateDump

KEYS = st.sampled_from(["a", "b", "=", "+", "-", "/", "state", ""])
ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([0.0, -0.0, 1.0, 1e300]), st.text(max_size=3)
)
DATA = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
DICTS = st.dictionaries(KEYS, DATA, max_size=4)


class Thread:
    """A thread as an engine keeps it, with the rows of the chain in use."""

    def __init__(self, every: int | None) -> None:
        self.rule = KeyframeRule(every)
        self.bodies: list[bytes] = []
        self.baseline: Baseline | None = None

    def save(self, step: int, state: dict, tree: dict | None = None, metadata: dict | None = None) -> Row:
        envelope = make_checkpoint_envelope(step, state, tree, metadata)
        picture = Picture(envelope, state)
        row = Row.keyframe(envelope) if self.baseline is None else self.rule.next_row(self.baseline, envelope, picture)
        self.bodies = [row.body] if row.whole else [*self.bodies, row.body]
        self.baseline = Baseline(Position(1, step), row.chain, picture)
        assert orjson.dumps(read_chain(self.bodies)) == orjson.dumps(envelope)
        return row

    def forget(self) -> None:
        """Go on as another process would, which knows only what is stored."""
        self.baseline = Baseline.stored(Position(1, 0), self.bodies)


@st.composite
def mutated(draw: st.DrawFn, value: object) -> object:
    """A value near another one: kept, grown, changed inside, or replaced."""
    if isinstance(value, list) and draw(st.booleans()):
        return [*value, *draw(st.lists(DATA, max_size=2))]
    if isinstance(value, dict) and draw(st.booleans()):
        kept = {key: draw(mutated(item)) for key, item in value.items() if draw(st.integers(0, 4))}
        return {**kept, **draw(st.dictionaries(KEYS, DATA, max_size=1))}
    return draw(st.sampled_from([value, orjson.loads(orjson.dumps(value))]) | DATA)


@st.composite
def runs(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """State, tree and runtime metadata of successive saves."""
    current: tuple[Any, ...] = (draw(DICTS), draw(DICTS | st.none()), draw(DICTS))
    run = [current]
    for _ in range(draw(st.integers(0, 6))):
        parts = tuple(draw(mutated(part)) for part in current)
        current = tuple(part if isinstance(part, dict) else {} for part in parts)
        run.append(current)
    return run


@given(runs(), st.sampled_from([None, 1, 2, 3, 100]), st.integers(1, 3))
def test_every_step_reads_back_byte_for_byte(run: list[tuple[Any, ...]], every: int | None, restart: int) -> None:
    """Equal means the same JSON: 1, 1.0 and True stay apart, and dicts keep the order of their keys."""
    thread = Thread(every)
    for step, (state, tree, metadata) in enumerate(run):
        thread.save(step, state, tree, metadata)
        if step % restart == 0:
            thread.forget()


@given(st.lists(st.tuples(st.sampled_from(["append", "set", "keep"]), DATA), max_size=8), st.integers(0, 3))
def test_dumps_that_know_what_changed_read_back_too(changes: list[tuple[str, Any]], skipped: int) -> None:
    """Dumps of one state manager share unchanged values; some of them may never have been saved."""
    values: dict[str, Any] = {"messages": [1], "topic": "tea", "profile": {"a": 1}}
    thread = Thread(1000)
    for number, (change, data) in enumerate(changes, start=1):
        said: dict[str, Any] = {}
        if change == "append":
            values = {**values, "messages": [*values["messages"], data]}
            said = {"messages": ("append", 1)}
        elif change == "set":
            values = {**values, "messages": [data], "topic": data}
            said = {"messages": ("set",), "topic": ("set",)}
        dump = StateDump(values, source="m", sequence=number, previous=number - 1 or None, changes=said)
        if not skipped or number % (skipped + 1):
            thread.save(number, dump)


def test_one_message_more_costs_one_message() -> None:
    """What is stored of a tick does not depend on how long the list already is."""
    sizes: dict[int, int] = {}
    for length in (10, 10_000):
        thread = Thread(None)
        state = {"messages": [{"text": f"message {index:05}"} for index in range(length)]}
        thread.save(1, state)
        state["messages"].append({"text": "one more"})
        sizes[length] = len(thread.save(2, state).body)
    assert sizes[10_000] == sizes[10]


def test_a_list_that_the_caller_keeps_changing_is_seen_to_change() -> None:
    """A plain dict is compared by what it held when it was saved, not by the objects in it."""
    thread = Thread(1000)
    state: dict[str, Any] = {"messages": [{"text": "a"}], "profile": {"name": "x"}}
    thread.save(1, state)
    state["messages"][0]["text"] = "b"
    thread.save(2, state)
    state["profile"]["name"] = "y"
    thread.save(3, state)


def test_a_value_swapped_behind_a_dump_that_knows_its_changes_is_seen() -> None:
    """What a dump says of its changes is only believed of values that are the same objects or grew."""
    thread = Thread(1000)
    thread.save(1, StateDump({"topic": "tea"}, source="m", sequence=1, previous=None, changes={}))
    dump = StateDump({"topic": "tea"}, source="m", sequence=2, previous=1, changes={})
    dump["topic"] = "coffee"
    thread.save(2, dump)


def test_one_node_of_a_large_tree_costs_one_node() -> None:
    """The tree's statuses and the runner's nested metadata are compared key by key."""
    thread = Thread(None)
    tree = {f"root/node-{index}": "INVALID" for index in range(500)}
    metadata = {"tree": {"nodes": {path: {"feedback": ""} for path in tree}}}
    thread.save(1, {}, tree, metadata)
    tree["root/node-7"] = "RUNNING"
    metadata["tree"]["nodes"]["root/node-7"] = {"feedback": "busy"}
    assert len(thread.save(2, {}, tree, metadata).body) < 200


def test_a_patch_of_more_than_half_a_keyframe_is_stored_as_a_keyframe() -> None:
    thread = Thread(None)
    thread.save(1, {"text": "a" * 100})
    assert thread.save(2, {"text": "b" * 100}).whole


def test_chains_stay_short_enough_to_read() -> None:
    """Reading patches costs half of reading their keyframe at most, with some room for small threads."""
    thread = Thread(None)
    state: dict[str, Any] = {"log": [], "count": 0, "ballast": "x" * 1000}
    longest = 0
    for step in range(300):
        state = {**state, "log": [*state["log"][-10:], step], "count": step}
        row = thread.save(step, state)
        longest = max(longest, row.chain.patches)
    assert 10 < longest <= 64


def test_what_a_growing_thread_stores_is_in_proportion_to_what_was_said() -> None:
    """All rows of a thousand ticks together are a few times the last snapshot; whole snapshots were 500 times."""
    thread = Thread(None)
    messages: list[Any] = []
    stored = 0
    for step in range(1000):
        messages.append({"text": f"message {step:04} " + "x" * 100})
        stored += len(thread.save(step, {"messages": messages}).body)
    assert stored < 12 * len(orjson.dumps(messages))


@pytest.mark.parametrize("every", [1, 2, 7])
def test_a_fixed_distance_between_keyframes_is_kept(every: int) -> None:
    thread = Thread(every)
    whole = [thread.save(step, {"count": step, "ballast": "x" * 100}).whole for step in range(20)]
    assert whole == [step % every == 0 for step in range(20)]


@pytest.mark.parametrize("every", [0, -1])
def test_a_distance_below_one_is_refused(every: int) -> None:
    with pytest.raises(ConfigurationError, match="keyframe_every"):
        KeyframeRule(every)


@pytest.mark.parametrize(
    "bodies",
    [[b"{"], [b"{}", b'{"+":{"gone":[1]}}'], [b"{}", b'{"-":["gone"]}'], [b"[]", b'{"=":{"a":1}}'], [b"{}", b"nope"]],
)
def test_a_damaged_chain_is_an_error(bodies: list[bytes]) -> None:
    with pytest.raises(CheckpointLoadError, match="damaged"):
        read_chain(bodies)


def test_the_newest_baseline_of_a_thread_wins() -> None:
    """A slow reader does not put back what it read before somebody saved."""
    kept = Baselines()
    older, newer = (Baseline(Position(1, n), Chain(1), Picture(make_checkpoint_envelope(n, {}))) for n in (1, 2))
    kept.put("a", newer)
    kept.put("a", older)
    assert kept.get("a") is newer
    made_again = Baseline(Position(2, 1), Chain(1), Picture(make_checkpoint_envelope(1, {})))
    kept.put("a", made_again)
    assert kept.get("a") is made_again


def test_only_the_threads_used_last_are_kept() -> None:
    kept = Baselines(limit=2)
    for name in ("a", "b", "a", "c"):
        kept.put(name, Baseline(Position(name, 1), Chain(1), Picture(make_checkpoint_envelope(1, {}))))
    assert [kept.get(name) is not None for name in ("a", "b", "c")] == [True, False, True]
