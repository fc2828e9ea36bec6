"""What is particular to Redis, on a real server."""

import sys
import threading
from datetime import timedelta

import pytest
import redis

from jianmu.errors import (
    CheckpointLoadError,
    CheckpointSaveError,
    CheckpointVersionError,
    ConfigurationError,
    MissingExtraError,
)
from jianmu.memory import RedisCheckpointer


def test_a_thread_that_is_not_saved_disappears(redis_url: str, redis_prefix: str) -> None:
    """Redis itself forgets it, as a whole; nothing of it is left in any key."""
    with RedisCheckpointer(redis_url, prefix=redis_prefix, ttl=timedelta(milliseconds=300)) as checkpointer:
        checkpointer.save_checkpoint("chat", 1, {"a": 1})
        assert checkpointer.get_checkpoint("chat") is not None
        gone = threading.Event()
        for _ in range(500):
            if checkpointer.get_checkpoint("chat") is None:
                break
            gone.wait(0.01)
        assert checkpointer.get_checkpoint("chat") is None
        assert checkpointer.list_threads() == []
        assert checkpointer.list_checkpoints("chat") == []
        with redis.Redis.from_url(redis_url) as client:
            assert list(client.scan_iter(f"{redis_prefix}:{{*")) == []
        checkpointer.save_checkpoint("chat", 2, {"a": 2})
        assert [info.step for info in checkpointer.list_checkpoints("chat")] == [2]


def test_each_save_gives_the_whole_thread_new_time(redis_url: str, redis_prefix: str) -> None:
    with (
        RedisCheckpointer(redis_url, prefix=redis_prefix, ttl=timedelta(hours=1)) as checkpointer,
        redis.Redis.from_url(redis_url) as client,
    ):
        checkpointer.save_checkpoint("chat", 1, {"ballast": "x" * 1000})
        keys = list(client.scan_iter(f"{redis_prefix}:{{*"))
        assert len(keys) == 4
        for key in keys:
            client.pexpire(key, 60_000)
        checkpointer.save_checkpoint("chat", 2, {"ballast": "x" * 1000})
        assert all(client.pttl(key) > 3_000_000 for key in keys)


def test_without_a_span_nothing_disappears(redis_url: str, redis_prefix: str) -> None:
    with RedisCheckpointer(redis_url, prefix=redis_prefix) as checkpointer, redis.Redis.from_url(redis_url) as client:
        checkpointer.save_checkpoint("chat", 1, {})
        assert [client.pttl(key) for key in client.scan_iter(f"{redis_prefix}:{{*")] == [-1] * 4


def test_a_prefix_is_no_pattern(redis_url: str, redis_prefix: str) -> None:
    """Two prefixes never share threads, whatever Redis would make of them as patterns."""
    prefixes = [f"{redis_prefix}{tail}" for tail in ("", "*", "?", "[a]", "a", "\\", ":chat", "-", "^")]
    for number, prefix in enumerate(prefixes):
        with RedisCheckpointer(redis_url, prefix=prefix) as checkpointer:
            assert checkpointer.list_threads() == []
            checkpointer.save_checkpoint(f"chat-{number}", 1, {})
    for number, prefix in enumerate(prefixes):
        with RedisCheckpointer(redis_url, prefix=prefix) as checkpointer:
            assert checkpointer.list_threads() == [f"chat-{number}"]


@pytest.mark.parametrize("prefix", ["{", "a}b", "{chat}"])
def test_a_prefix_has_no_braces(redis_url: str, prefix: str) -> None:
    """They would move the thread's keys, and could make one prefix look like a thread of another."""
    with pytest.raises(ConfigurationError, match="prefix"):
        RedisCheckpointer(redis_url, prefix=prefix)


def test_scripts_that_the_server_forgot_are_sent_again(redis_url: str, redis_prefix: str) -> None:
    with RedisCheckpointer(redis_url, prefix=redis_prefix) as checkpointer, redis.Redis.from_url(redis_url) as client:
        for step in range(1, 4):
            checkpointer.save_checkpoint("chat", step, {"a": step})
            client.script_flush()
        assert [info.step for info in checkpointer.list_checkpoints("chat")] == [3, 2, 1]


def test_a_server_that_fell_back_to_older_data_is_noticed(redis_url: str, redis_prefix: str) -> None:
    """After a failover that lost saves, nothing is built on a row that is not the one it is taken for."""
    with (
        RedisCheckpointer(redis_url, prefix=redis_prefix, keyframe_every=100) as survivor,
        RedisCheckpointer(redis_url, prefix=redis_prefix, keyframe_every=100) as other,
        redis.Redis.from_url(redis_url) as client,
    ):
        keys = [f"{redis_prefix}:{{chat}}:{part}" for part in ("info", "rows", "heads", "steps")]
        survivor.save_checkpoint("chat", 1, {"a": [*range(100)]})
        copy = [client.dump(key) for key in keys]
        survivor.save_checkpoint("chat", 2, {"a": [*range(101)]})
        for key, content in zip(keys, copy, strict=True):
            client.restore(key, 0, content, replace=True)
        other.save_checkpoint("chat", 2, {"b": 2})
        survivor.save_checkpoint("chat", 3, {"a": [*range(102)]})
        assert other.get_checkpoint("chat")["state"] == {"a": [*range(102)]}
        assert other.get_checkpoint_at("chat", 2)["state"] == {"b": 2}


def test_newer_keys_are_refused(redis_url: str, redis_prefix: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.set(f"{redis_prefix}:version", 99)
    with pytest.raises(CheckpointVersionError, match="99"):
        RedisCheckpointer(redis_url, prefix=redis_prefix)


@pytest.mark.parametrize("url", ["", "http://localhost", "localhost:6379"])
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="url"):
        RedisCheckpointer(url)


@pytest.mark.parametrize("ttl", [timedelta(0), timedelta(seconds=-1)])
def test_a_span_that_is_none_is_refused(redis_url: str, ttl: timedelta) -> None:
    with pytest.raises(ConfigurationError, match="ttl"):
        RedisCheckpointer(redis_url, ttl=ttl)


def test_a_server_that_is_not_there_is_an_error() -> None:
    with pytest.raises(CheckpointLoadError, match="Redis"):
        RedisCheckpointer("redis://127.0.0.1:1/0", timeout=0.2)


def test_what_the_server_refuses_names_the_thread(redis_url: str, redis_prefix: str) -> None:
    """R18: the error carries the server's words, and the thread is as it was."""
    with RedisCheckpointer(redis_url, prefix=redis_prefix) as checkpointer, redis.Redis.from_url(redis_url) as client:
        checkpointer.save_checkpoint("chat", 1, {"a": 1})
        client.set(f"{redis_prefix}:{{other}}:info", "in the way")
        with pytest.raises(CheckpointSaveError, match=r"'other', step 2.*WRONGTYPE"):
            checkpointer.save_checkpoint("other", 2, {})
        with pytest.raises(CheckpointLoadError, match="'other'"):
            checkpointer.get_checkpoint("other")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """R4: the error says which extra to install."""
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingExtraError, match=r"jianmu\[redis\]"):
        RedisCheckpointer("redis://localhost")
