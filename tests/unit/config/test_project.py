"""Settings are data, and wrong ones are refused when they are made."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from jianmu.config import ProjectConfig, RuntimeCheckpointConfig
from jianmu.errors import ConfigurationError


def test_the_defaults_save_nothing() -> None:
    """R19 R20: one-shot unless asked for; then every tick, to files."""
    config = RuntimeCheckpointConfig()
    assert (config.enabled, config.backend, config.interval) == (False, "file", 1)
    assert (config.url, config.fsync, config.keep_last, config.durability) == (None, True, None, "sync")
    assert config.directory == ".outputs/jianmu/checkpoints"
    assert ProjectConfig().checkpoint == config


def test_settings_live_where_they_are_looked_for() -> None:
    """R19: a module project.py."""
    from jianmu.config import project

    assert project.RuntimeCheckpointConfig is RuntimeCheckpointConfig


def test_settings_do_not_change() -> None:
    """R19."""
    config = RuntimeCheckpointConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.interval = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"backend": "mongo"}, ["'mongo'", "file", "memory", "null", "sqlite", "postgres", "redis"]),
        ({"backend": None}, ["None", "file"]),
        ({"interval": 0}, ["interval", "0", "at least 1"]),
        ({"interval": -3}, ["interval", "-3"]),
        ({"interval": 1.5}, ["interval", "1.5"]),
        ({"interval": True}, ["interval", "True"]),
        ({"keep_last": 0}, ["keep_last", "0"]),
        ({"keep_last": "3"}, ["keep_last", "'3'"]),
        ({"durability": "later"}, ["'later'", "sync", "async", "exit"]),
        ({"backend": "postgres"}, ["'postgres'", "url"]),
        ({"backend": "redis", "url": ""}, ["'redis'", "url"]),
    ],
)
def test_a_wrong_setting_is_refused_at_once(wrong: dict[str, Any], said: list[str]) -> None:
    """R20: the error says which setting, what it is and what it may be."""
    with pytest.raises(ConfigurationError) as error:
        RuntimeCheckpointConfig(**wrong)
    assert all(part in str(error.value) for part in said), str(error.value)
