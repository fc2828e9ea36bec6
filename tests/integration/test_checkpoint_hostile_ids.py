"""Thread ids and values that try to be SQL, JSON paths, patterns or scripts are only ever names and data."""

import pytest
from tests.engines import Engine

IDS = [
    "'; DROP TABLE jianmu_checkpoints; --",
    '" OR 1=1 --',
    "x' UNION SELECT body FROM jianmu_checkpoints --",
    "%(name)s",
    "%s%%",
    ":name",
    "?1",
    "$1",
    "{schema}",
    "$.state.messages[0]",
    "$['x'] || '",
    "'->>'state",
    "*",
    "?hat",
    "[a-z]",
    "chat*",
    "chat}:info",
    "{chat",
    "}{",
    "chat:rows",
    "\r\nFLUSHALL\r\n",
    "]] .. redis.call('FLUSHALL') .. [[",
    "\0",
    "chat\0",
    "a/b",
    "a%2Fb",
    "../up",
    "CON",
    "chat",
    "Chat",
    "chat ",
    " chat",
    "e\u0301",
    "\u00e9",
    "\U0001f333木",
    "\ud800",
    "x" * 3000,
    "1",
    "01",
    "-1",
    "NULL",
    "\\",
]


def test_every_id_is_its_own_thread(engine: Engine) -> None:
    """Two different ids never share data, and each comes back in the listing as it was given."""
    checkpointer = engine.open()
    for number, thread in enumerate(IDS):
        for step in (1, 2, 3):
            checkpointer.save_checkpoint(thread, step, {"number": number, "step": step})
    assert checkpointer.list_threads() == sorted(IDS)
    again = engine.open()
    for number, thread in enumerate(IDS):
        assert again.get_checkpoint(thread)["state"]["number"] == number
        assert again.get_checkpoint_at(thread, 2)["state"]["step"] == 2
        assert [info.step for info in again.list_checkpoints(thread)] == [3, 2, 1]


def test_every_operation_touches_only_the_thread_it_names(engine: Engine) -> None:
    checkpointer = engine.open()
    for thread in IDS:
        checkpointer.save_checkpoint(thread, 1, {"id": 1})
    left = set(IDS)
    for thread in IDS:
        with checkpointer.lock(thread):
            checkpointer.save_checkpoint(thread, 2, {"id": 2})
        assert checkpointer.prune(thread, keep_last=1) == 1
        checkpointer.fork(thread, 2, "copy")
        assert checkpointer.delete_thread(thread)
        left.discard(thread)
        assert checkpointer.list_threads() == sorted({*left, "copy"})
        assert checkpointer.delete_thread("copy")


@pytest.mark.parametrize("key", [name for name in IDS if name != "\ud800"])
def test_values_and_keys_are_only_data(engine: Engine, key: str) -> None:
    """Patches name keys; a key that looks like a patch's own or like a path is a key."""
    checkpointer = engine.open(keyframe_every=100)
    state = {key: {"=": [key], "+": {"-": key}}, "=": 1, "/": [key]}
    checkpointer.save_checkpoint("chat", 1, {"first": key})
    checkpointer.save_checkpoint("chat", 2, state)
    state[key]["="].append("more")
    checkpointer.save_checkpoint("chat", 3, state)
    assert engine.open().get_checkpoint("chat")["state"] == state
