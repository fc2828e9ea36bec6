"""What SQLite, PostgreSQL and Redis checkpointers do alike, on real files and servers."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.engines import Engine

from jianmu.errors import CheckpointSaveError, ConfigurationError


def chat(step: int) -> dict[str, Any]:
    return {"count": step, "messages": [{"id": index, "text": f"message {index}"} for index in range(step)]}


def test_another_checkpointer_goes_on_where_the_first_one_stopped(engine: Engine) -> None:
    """R7 R8: nothing that matters is kept only in memory."""
    for step in range(1, 20):
        engine.open().save_checkpoint("chat", step, chat(step), {"root": "RUNNING"}, {"tick": step})
    reader = engine.open()
    assert [reader.get_checkpoint_at("chat", step)["state"] for step in range(1, 20)] == [*map(chat, range(1, 20))]
    assert reader.get_checkpoint("chat")["runtime_metadata"] == {"tick": 19}


def test_two_checkpointers_that_take_turns_never_patch_the_wrong_base(engine: Engine) -> None:
    """Each finds that the newest row is not its own and stores a whole snapshot."""
    first, second = engine.open(keyframe_every=100), engine.open(keyframe_every=100)
    for step in range(1, 13):
        writer = (first, first, second)[step % 3]
        writer.save_checkpoint("chat", step, chat(step))
    assert [engine.open().get_checkpoint_at("chat", step)["state"] for step in range(1, 13)] == [
        *map(chat, range(1, 13))
    ]


def test_a_thread_made_again_is_not_mistaken_for_the_old_one(engine: Engine) -> None:
    """A checkpointer that still remembers a deleted thread does not build on the new one of the same name."""
    first, second = engine.open(keyframe_every=100), engine.open(keyframe_every=100)
    for step in (1, 2, 3):
        first.save_checkpoint("chat", step, chat(step))
    assert second.delete_thread("chat")
    for step in (1, 2, 3):
        second.save_checkpoint("chat", step, {"other": step})
    first.save_checkpoint("chat", 4, chat(4))
    second.save_checkpoint("chat", 5, {"other": 5})
    states = [first.get_checkpoint_at("chat", step)["state"] for step in range(1, 6)]
    assert states == [{"other": 1}, {"other": 2}, {"other": 3}, chat(4), {"other": 5}]


def test_a_row_pruned_by_another_process_is_not_built_upon(engine: Engine) -> None:
    first, second = engine.open(keyframe_every=100), engine.open(keyframe_every=100)
    first.save_checkpoint("chat", 1, chat(1))
    for step in range(2, 6):
        second.save_checkpoint("chat", step, chat(step))
    assert second.prune("chat", keep_last=1) == 4
    first.save_checkpoint("chat", 6, chat(6))
    second.save_checkpoint("chat", 7, chat(7))
    assert [info.step for info in first.list_checkpoints("chat")] == [7, 6, 5]
    assert [second.get_checkpoint_at("chat", step)["state"] for step in (5, 6, 7)] == [chat(5), chat(6), chat(7)]


@pytest.mark.parametrize("keep", range(1, 9))
def test_pruning_leaves_every_kept_step_readable(engine: Engine, keep: int) -> None:
    """Wherever the cut falls in a chain, and for saves that follow through a checkpointer that was open before."""
    checkpointer = engine.open(keyframe_every=4)
    for step in range(1, 11):
        checkpointer.save_checkpoint("chat", step, chat(step))
    assert engine.open().prune("chat", keep_last=keep) == 10 - keep
    checkpointer.save_checkpoint("chat", 11, chat(11))
    kept = range(11 - keep, 12)
    assert [info.step for info in checkpointer.list_checkpoints("chat")] == [*reversed(kept)]
    assert [engine.open().get_checkpoint_at("chat", step)["state"] for step in kept] == [*map(chat, kept)]
    assert checkpointer.get_checkpoint_at("chat", 10 - keep) is None


def test_a_step_saved_again_counts_where_it_was_saved_last(engine: Engine) -> None:
    """A thread that was rewound: the newest is what was saved last, whatever its step."""
    checkpointer = engine.open()
    for step, value in [(1, "a"), (2, "b"), (3, "c"), (2, "again")]:
        checkpointer.save_checkpoint("chat", step, {"value": value})
    assert [info.step for info in checkpointer.list_checkpoints("chat")] == [2, 3, 1]
    assert checkpointer.get_checkpoint("chat")["step"] == 2
    assert checkpointer.get_checkpoint_at("chat", 2)["state"] == {"value": "again"}
    assert [info.step for info in checkpointer.list_checkpoints("chat", limit=1, before=3)] == [2]
    assert checkpointer.prune("chat", keep_last=2) == 1
    assert [info.step for info in checkpointer.list_checkpoints("chat")] == [2, 3]


def test_what_is_older_than_a_span_can_be_dropped(engine: Engine) -> None:
    """The same call, made now and then, gives a backend without expiry of its own a time to live."""
    checkpointer = engine.open()
    for step in (1, 2, 3):
        checkpointer.save_checkpoint("chat", step, {})
    saved_at = checkpointer.list_checkpoints("chat")[1].created_at
    assert abs(datetime.now(UTC) - saved_at) < timedelta(minutes=1)
    assert checkpointer.prune("chat", older_than=timedelta(hours=1)) == 0
    assert checkpointer.prune("chat", older_than=saved_at, keep_last=3) == 0
    assert checkpointer.prune("chat", older_than=datetime.now(UTC) + timedelta(hours=1)) == 2
    assert [info.step for info in checkpointer.list_checkpoints("chat")] == [3]


@pytest.mark.parametrize("wrong", [{}, {"keep_last": 0}, {"older_than": datetime(2026, 5, 1)}])  # noqa: DTZ001
def test_a_careless_prune_is_refused(engine: Engine, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        engine.open().prune("chat", **wrong)


def test_a_value_that_is_no_data_is_named_and_costs_nothing(engine: Engine) -> None:
    """R18: the error says where it sits; the checkpoint before is still there."""
    checkpointer = engine.open()
    checkpointer.save_checkpoint("chat", 1, {"profile": {"tags": ["a"]}})
    for bad in (object(), {1: 2}, 2**70, "\ud800"):
        with pytest.raises(CheckpointSaveError, match=r"chat.*step 2.*state\.profile\.tags\[1\]"):
            checkpointer.save_checkpoint("chat", 2, {"profile": {"tags": ["a", bad]}})
    assert checkpointer.get_checkpoint("chat")["step"] == 1
    checkpointer.save_checkpoint("chat", 2, {"profile": {"tags": ["a", "b"]}})
    assert checkpointer.get_checkpoint("chat")["state"] == {"profile": {"tags": ["a", "b"]}}


@pytest.mark.parametrize("step", [2**63 - 1, 2**63, 10**30])
def test_huge_steps_are_kept_or_refused(engine: Engine, step: int) -> None:
    checkpointer = engine.open()
    try:
        checkpointer.save_checkpoint("chat", step, {})
    except CheckpointSaveError:
        assert step >= 2**63
        assert checkpointer.get_checkpoint("chat") is None
    else:
        assert checkpointer.get_checkpoint("chat")["step"] == step
    assert checkpointer.get_checkpoint_at("chat", 10**31) is None
    assert checkpointer.list_checkpoints("chat", before=10**31) == checkpointer.list_checkpoints("chat")


def test_threads_of_one_process_may_save_at_once(engine: Engine) -> None:
    """R15: also on one thread id, where each save is whole and the last one wins."""
    checkpointer = engine.open()

    def save(worker: int) -> None:
        for step in range(20):
            checkpointer.save_checkpoint(f"own-{worker}", step, chat(step))
            checkpointer.save_checkpoint("shared", worker * 100 + step, chat(step))

    workers = [threading.Thread(target=save, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for step in range(20):
        for worker in range(4):
            assert checkpointer.get_checkpoint_at(f"own-{worker}", step)["state"] == chat(step)
            assert checkpointer.get_checkpoint_at("shared", worker * 100 + step)["state"] == chat(step)


async def test_the_async_half_keeps_the_loop_free(engine: Engine) -> None:
    checkpointer = engine.open()
    await asyncio.gather(*(checkpointer.asave_checkpoint(f"t{n}", 1, chat(n)) for n in range(8)))
    assert await checkpointer.alist_threads() == [f"t{n}" for n in range(8)]
    assert (await checkpointer.aget_checkpoint("t5"))["state"] == chat(5)
    await checkpointer.afork("t5", 1, "new")
    assert (await checkpointer.aget_checkpoint_at("new", 1))["state"] == chat(5)
    assert [info.step for info in await checkpointer.alist_checkpoints("new")] == [1]
    assert await checkpointer.aprune("new", keep_last=1) == 0
    assert await checkpointer.adelete_thread("new")


def test_many_checkpointers_may_be_opened_at_the_same_moment(engine: Engine) -> None:
    """The first ones make the tables; nobody fails."""
    opened: list[Any] = []
    start = threading.Barrier(6)

    def open_one() -> None:
        start.wait()
        opened.append(engine.open())

    openers = [threading.Thread(target=open_one) for _ in range(6)]
    for opener in openers:
        opener.start()
    for opener in openers:
        opener.join()
    assert len(opened) == 6
    opened[0].save_checkpoint("chat", 1, {"a": 1})
    assert [checkpointer.get_checkpoint("chat")["state"] for checkpointer in opened] == [{"a": 1}] * 6


@pytest.mark.parametrize("options", [{"keyframe_every": 0}, {"lease_ttl": 0}])
def test_wrong_settings_are_refused_at_once(engine: Engine, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        engine.open(**options)


def test_reading_the_newest_touches_one_chain_however_long_the_thread(engine: Engine) -> None:
    """A thousand saves later, a read still needs one keyframe and its patches, not the thread."""
    checkpointer = engine.open()
    for step in range(1000):
        checkpointer.save_checkpoint("chat", step, {"count": step, "ballast": "x" * 300})
    stored = checkpointer._rows.chain("chat")
    assert len(stored.bodies) <= 64
    assert checkpointer.get_checkpoint("chat")["state"]["count"] == 999
