"""Any sequence of saves reads back equal at every step, on every engine, with keyframes at every distance."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engines import Engine

from jianmu.errors import CheckpointSaveError
from jianmu.memory import EncryptedCheckpointer, InMemoryCheckpointer, SqliteCheckpointer

KEYS = st.sampled_from(["a", "b", "messages", "=", "+", "-", "/"])
ATOMS = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([0.0, -0.0, 1.0]), st.text(max_size=3))
DATA = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
DICTS = st.dictionaries(KEYS, DATA, max_size=3)
GROWN = st.builds(lambda length: {"messages": [{"n": n} for n in range(length)]}, st.integers(0, 6))
SAVES = st.tuples(
    st.just("save"), st.integers(0, 9), DICTS | GROWN, st.none() | st.dictionaries(KEYS, st.text(max_size=2)), DICTS
)
OTHERS = st.one_of(
    st.tuples(st.just("prune"), st.integers(1, 4)),
    st.tuples(st.just("fork"), st.integers(0, 9)),
    st.tuples(st.just("delete")),
    st.tuples(st.just("restart")),
)
HISTORIES = st.lists(st.tuples(st.integers(0, 1), st.one_of(SAVES, SAVES, SAVES, SAVES, OTHERS)), max_size=12)


def apply(checkpointer: Any, thread: str, operation: tuple[Any, ...]) -> Any:
    match operation:
        case ("save", step, state, tree, metadata):
            return checkpointer.save_checkpoint(thread, step, state, tree, metadata)
        case ("prune", keep):
            return checkpointer.prune(thread, keep_last=keep)
        case ("delete",):
            return checkpointer.delete_thread(thread)
        case ("fork", step):
            try:
                return checkpointer.fork(thread, step, f"{thread}-fork")
            except (LookupError, CheckpointSaveError) as error:
                return type(error)
    return None


def exactly(value: Any) -> bytes:
    """Equal bytes are equal values of the same types in the same order."""
    return orjson.dumps(value)


def everything(checkpointer: Any, threads: list[str]) -> dict[str, Any]:
    """All that a checkpointer knows of some threads."""
    return {
        thread: [
            (info.step, checkpointer.get_checkpoint_at(thread, info.step))
            for info in checkpointer.list_checkpoints(thread)
        ]
        + [checkpointer.get_checkpoint(thread)]
        for thread in threads
    }


def agree(open_one: Callable[[], Any], history: list[Any]) -> None:
    """Give two checkpointers on the same data and one in memory the same operations: they know the same in the end.

    Either of the two does each operation, so that each often finds that the other one wrote last.
    """
    thread = f"thread-{uuid4().hex}"
    model = InMemoryCheckpointer()
    pair = [open_one(), open_one()]
    for who, operation in history:
        if operation == ("restart",):
            pair[who].close()
            pair[who] = open_one()
        assert apply(pair[who], thread, operation) == apply(model, thread, operation)
        assert exactly(pair[1 - who].get_checkpoint(thread)) == exactly(model.get_checkpoint(thread))
    threads = [thread, f"{thread}-fork"]
    for checkpointer in (*pair, open_one()):
        assert exactly(everything(checkpointer, threads)) == exactly(everything(model, threads))
        checkpointer.close()


@pytest.mark.parametrize("every", [None, 1, 2, 3, 50])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=HISTORIES)
def test_an_engine_agrees_with_plain_memory(engine: Engine, every: int | None, history: list[Any]) -> None:
    agree(lambda: engine.open(keyframe_every=every), history)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=HISTORIES)
def test_an_encrypted_engine_agrees_with_plain_memory(tmp_path: Path, history: list[Any]) -> None:
    """Also where the wrapper's own chains of encrypted changes end in the other one's."""
    keys = {"2026-05": b"k" * 32}
    agree(lambda: EncryptedCheckpointer(SqliteCheckpointer(tmp_path / "c.db", keyframe_every=3), keys), history)
