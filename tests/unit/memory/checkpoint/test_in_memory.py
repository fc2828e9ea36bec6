"""InMemoryCheckpointer keeps copies of whatever can be copied."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from typing import Any

import pytest
from pydantic import BaseModel

from jianmu.errors import CheckpointSaveError
from jianmu.memory import InMemoryCheckpointer, make_checkpoint_envelope
from jianmu.serialization import same
from jianmu.state import StateManager


def test_it_keeps_more_than_json() -> None:
    """R17: deep copies, so a set stays a set and a tuple a tuple."""
    checkpointer = InMemoryCheckpointer()
    state: dict[str, Any] = {"tags": {"x"}, "pair": (1, [2])}
    checkpointer.save_checkpoint("t", 1, state)
    state["tags"].add("y")
    state["pair"][1].append(3)
    read = checkpointer.get_checkpoint("t")
    assert read["state"] == {"tags": {"x"}, "pair": (1, [2])}
    read["state"]["tags"].clear()
    assert checkpointer.get_checkpoint("t")["state"]["tags"] == {"x"}


def test_what_can_not_be_copied_names_its_path() -> None:
    """R18."""
    checkpointer = InMemoryCheckpointer()
    checkpointer.save_checkpoint("t", 1, {"a": 1})
    with pytest.raises(CheckpointSaveError, match=r"thread 't', step 2: state\.a\[1\]\.lock: cannot pickle"):
        checkpointer.save_checkpoint("t", 2, {"a": [0, {"lock": threading.Lock()}]})
    assert checkpointer.get_checkpoint("t")["step"] == 1


def test_two_of_them_share_nothing() -> None:
    """R17."""
    first, second = InMemoryCheckpointer(), InMemoryCheckpointer()
    first.save_checkpoint("t", 1, {})
    assert second.get_checkpoint("t") is None
    with first.lock("t"), second.lock("t"):
        pass


def test_classes_are_kept() -> None:
    """R17: what looks like a dict or a list is copied as what it is."""
    checkpointer = InMemoryCheckpointer()
    state: dict[str, Any] = {"counts": [Counter(a=1)], "pairs": OrderedDict(x=[1])}
    checkpointer.save_checkpoint("t", 1, state)
    state["counts"][0].update("b")
    state["pairs"]["x"].append(2)
    read = checkpointer.get_checkpoint("t")["state"]
    assert same(read, {"counts": [Counter(a=1)], "pairs": OrderedDict(x=[1])})


def test_what_contains_itself_is_refused() -> None:
    """R18: it could not be stored anywhere else either."""
    itself: list[Any] = []
    itself.append({"again": itself})
    with pytest.raises(CheckpointSaveError, match=r"thread 't', step 1: state\.a\[0\]\.again"):
        InMemoryCheckpointer().save_checkpoint("t", 1, {"a": itself})


def test_dumps_of_a_state_manager_come_back_equal() -> None:
    """R17 R44: whatever stands beside them."""

    class Chat(BaseModel):
        messages: list[str] = []
        tags: set[str] = set()

    manager = StateManager(Chat)
    manager.initialize({"messages": ["木"], "tags": {"x"}})
    checkpointer = InMemoryCheckpointer()
    for step, metadata in enumerate(({"k": [1]}, {"k": (1, 2)}, {"k": {1}})):
        dump = manager.dump_checkpoint()
        checkpointer.save_checkpoint("t", step, dump, {"root": "RUNNING"}, metadata)
        manager.update(messages=["木", str(step)])
        read = checkpointer.get_checkpoint("t")
        assert same(read, make_checkpoint_envelope(step, dump, {"root": "RUNNING"}, metadata))
        read["state"]["messages"].append("changed")
        assert same(checkpointer.get_checkpoint_at("t", step)["state"], dict(dump))
