"""Encrypted checkpoints: what is hidden, what is refused, what is passed on."""

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from jianmu.errors import CheckpointSaveError, ConfigurationError, DecryptionError
from jianmu.memory.checkpoint.capabilities import DeleteCapable, ForkCapable, HistoryCapable, LockCapable, PruneCapable
from jianmu.memory.checkpoint.encrypted import EncryptedCheckpointer
from jianmu.memory.checkpoint.in_memory import InMemoryCheckpointer
from jianmu.memory.checkpoint.protocol import CheckpointerProtocol
from jianmu.memory.checkpoint.sqlite import SqliteCheckpointer

ABILITIES = [HistoryCapable, ForkCapable, DeleteCapable, PruneCapable, LockCapable]
OLD, NEW = {"old": b"o" * 32}, {"new": b"n" * 32}


class TwoMethods:
    """A checkpointer that can do nothing more, and shows what it was given."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}

    def save_checkpoint(
        self, thread_id: str, step: int, state_dump: Any, tree_state: Any = None, runtime_metadata: Any = None
    ) -> None:
        self.stored[thread_id] = {"step": step, "state": orjson.loads(orjson.dumps(state_dump)), "tree": tree_state}

    def get_checkpoint(self, thread_id: str) -> Any:
        return self.stored.get(thread_id)


def load(checkpointer: CheckpointerProtocol, thread_id: str = "chat") -> Any:
    found = checkpointer.get_checkpoint(thread_id)
    assert found is not None
    return found["state"]


def test_only_the_step_is_readable() -> None:
    inner = TwoMethods()
    secret = "the secret of the tea"
    EncryptedCheckpointer(inner, OLD).save_checkpoint("chat", 7, {secret: secret}, {secret: secret}, {secret: secret})
    assert inner.stored["chat"]["step"] == 7
    assert secret not in repr(inner.stored)


@pytest.mark.parametrize("inner", [TwoMethods(), InMemoryCheckpointer(), SqliteCheckpointer(":memory:")])
def test_it_can_do_what_the_inner_one_can_and_no_more(inner: Any) -> None:
    wrapped = EncryptedCheckpointer(inner, OLD)
    assert isinstance(wrapped, CheckpointerProtocol)
    assert [isinstance(wrapped, kind) for kind in ABILITIES] == [isinstance(inner, kind) for kind in ABILITIES]
    wrapped.close()


def test_a_rotated_key_still_reads_and_no_longer_writes() -> None:
    inner = InMemoryCheckpointer()
    EncryptedCheckpointer(inner, OLD).save_checkpoint("chat", 1, {"a": 1})
    rotated = EncryptedCheckpointer(inner, OLD | NEW, current="new")
    assert load(rotated) == {"a": 1}
    rotated.save_checkpoint("chat", 2, {"a": 2})
    assert load(EncryptedCheckpointer(inner, NEW)) == {"a": 2}
    with pytest.raises(DecryptionError, match="'new'"):
        load(EncryptedCheckpointer(inner, OLD))


def test_rotation_reaches_a_backend_that_stores_changes(tmp_path: Path) -> None:
    """The first save under the new key leaves nothing in the newest checkpoint that needs the old one."""
    inner = SqliteCheckpointer(tmp_path / "c.db")
    before = EncryptedCheckpointer(inner, OLD)
    for step in range(5):
        before.save_checkpoint("chat", step, {"n": step, "ballast": "x" * 1000})
    rotated = EncryptedCheckpointer(inner, OLD | NEW, current="new")
    assert load(rotated)["n"] == 4
    rotated.save_checkpoint("chat", 5, {"n": 5, "ballast": "x" * 1000})
    assert load(EncryptedCheckpointer(inner, NEW))["n"] == 5
    inner.close()


def test_a_wrong_key_is_refused() -> None:
    inner = InMemoryCheckpointer()
    EncryptedCheckpointer(inner, {"key": b"1" * 32}).save_checkpoint("chat", 1, {})
    with pytest.raises(DecryptionError, match=r"'chat'.*step 1"):
        EncryptedCheckpointer(inner, {"key": b"2" * 32}).get_checkpoint("chat")


def test_what_is_moved_to_another_thread_is_refused() -> None:
    inner = TwoMethods()
    checkpointer = EncryptedCheckpointer(inner, OLD)
    checkpointer.save_checkpoint("mine", 1, {"a": 1})
    checkpointer.save_checkpoint("yours", 1, {"a": 1})
    inner.stored["yours"] = inner.stored["mine"]
    with pytest.raises(DecryptionError, match="moved"):
        checkpointer.get_checkpoint("yours")


def test_what_is_moved_to_another_step_is_refused() -> None:
    inner = TwoMethods()
    checkpointer = EncryptedCheckpointer(inner, OLD)
    checkpointer.save_checkpoint("chat", 1, {"a": 1})
    inner.stored["chat"]["step"] = 2
    with pytest.raises(DecryptionError):
        checkpointer.get_checkpoint("chat")


@pytest.mark.parametrize("position", [0, 5, 20, -6])
def test_a_changed_byte_is_refused(position: int) -> None:
    inner = TwoMethods()
    checkpointer = EncryptedCheckpointer(inner, OLD)
    checkpointer.save_checkpoint("chat", 1, {"a": 1})
    part = inner.stored["chat"]["state"]["$encrypted"][0]
    data = list(part["data"])
    data[position] = "A" if data[position] != "A" else "B"
    part["data"] = "".join(data)
    with pytest.raises(DecryptionError):
        checkpointer.get_checkpoint("chat")


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"a": 1},
        {"$encrypted": []},
        {"$encrypted": "x"},
        {"$encrypted": [{"key": "old"}]},
        {"$encrypted": [{"key": "old", "step": 1, "data": "?"}]},
    ],
)
def test_what_is_not_encrypted_is_refused(stored: dict[str, Any]) -> None:
    """A plain checkpoint put in place of an encrypted one is not taken for it."""
    inner = TwoMethods()
    inner.save_checkpoint("chat", 1, stored)
    with pytest.raises(DecryptionError):
        EncryptedCheckpointer(inner, OLD).get_checkpoint("chat")


def grown(tmp_path: Path, steps: int = 6) -> tuple[SqliteCheckpointer, EncryptedCheckpointer]:
    inner = SqliteCheckpointer(tmp_path / "c.db")
    checkpointer = EncryptedCheckpointer(inner, OLD)
    messages: list[Any] = []
    for step in range(steps):
        messages.append({"text": f"message {step} " + "x" * 1000})
        checkpointer.save_checkpoint("chat", step, {"messages": messages})
    return inner, checkpointer


@pytest.mark.parametrize("damage", ["drop_last", "drop_middle", "swap", "repeat"])
def test_parts_that_were_cut_or_swapped_are_refused(tmp_path: Path, damage: str) -> None:
    """Each part names the one before it, and the last one the step."""
    inner, checkpointer = grown(tmp_path)
    found = inner.get_checkpoint("chat")
    assert found is not None
    parts = found["state"]["$encrypted"]
    assert len(parts) > 2
    damaged = {
        "drop_last": parts[:-1],
        "drop_middle": [*parts[:-2], parts[-1]],
        "swap": [*parts[:-2], parts[-1], parts[-2]],
        "repeat": [*parts, parts[-1]],
    }[damage]
    inner.save_checkpoint("chat", found["step"], {"$encrypted": damaged})
    with pytest.raises(DecryptionError):
        checkpointer.get_checkpoint("chat")
    inner.close()


def test_over_a_backend_that_stores_changes_a_tick_costs_a_tick(tmp_path: Path) -> None:
    """Also after another process took over: one more message is not one more copy of the chat."""
    inner, _ = grown(tmp_path, 40)
    successor = EncryptedCheckpointer(inner, OLD)
    messages = load(successor)["messages"]
    for step in range(40, 60):
        messages.append({"text": f"message {step} " + "x" * 1000})
        successor.save_checkpoint("chat", step, {"messages": messages})
    assert load(successor) == {"messages": messages}
    with inner._rows._database.connection() as connection:  # pyright: ignore[reportAttributeAccessIssue]
        sizes = [size for (size,) in connection.execute("SELECT length(body) FROM jianmu_checkpoints ORDER BY id")]
    assert sorted(sizes)[30] < 2000
    assert sum(sizes) < 60 * 30 * 1000  # whole snapshots would be 60 * 30 kB, base64 aside
    inner.close()


def test_every_step_reads_back_over_a_backend_that_stores_changes(tmp_path: Path) -> None:
    inner, checkpointer = grown(tmp_path, 30)
    reader: Any = EncryptedCheckpointer(inner, OLD)
    assert [len(reader.get_checkpoint_at("chat", step)["state"]["messages"]) for step in range(30)] == [*range(1, 31)]
    inner.close()
    assert checkpointer.inner is inner


def test_a_value_that_is_no_data_is_named() -> None:
    with pytest.raises(CheckpointSaveError, match=r"'chat', step 2.*state\.a\[0\]"):
        EncryptedCheckpointer(TwoMethods(), OLD).save_checkpoint("chat", 2, {"a": [object()]})


@pytest.mark.parametrize(
    ("keys", "current", "said"),
    [
        ({}, None, "empty"),
        ({"a": b"short"}, None, "5 bytes"),
        ({"": b"x" * 32}, None, "named"),
        (OLD, "new", "current"),
    ],
)
def test_wrong_keys_are_refused(keys: dict[str, bytes], current: str | None, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        EncryptedCheckpointer(TwoMethods(), keys, current=current)


def test_random_keys_work() -> None:
    for size in (16, 24, 32):
        checkpointer = EncryptedCheckpointer(InMemoryCheckpointer(), {"k": os.urandom(size)})
        checkpointer.save_checkpoint("chat", 1, {"a": "木"})
        assert load(checkpointer) == {"a": "木"}
