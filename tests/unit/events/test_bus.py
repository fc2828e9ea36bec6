"""The event bus: typed events, bounded queues, isolated sinks (R29)."""

import dataclasses
import inspect
import json
import logging
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jianmu import RuntimeEventBus, events
from jianmu.errors import ConfigurationError
from jianmu.events import (
    CheckpointFailed,
    CheckpointSaved,
    EventPayload,
    JsonLinesSink,
    ListSink,
    LoggingSink,
    ModelDelta,
    RunFinished,
    TickFinished,
    emit,
    scope,
)


class Gate:
    """A sink that holds its thread until it is opened."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()
        self.seen: list[int] = []

    def handle(self, event) -> None:
        self.entered.set()
        assert self.open.wait(10)
        self.seen.append(event.payload["step"])


def tick(step: int = 1) -> TickFinished:
    return TickFinished(step=step, status="RUNNING")


def test_an_event_carries_what_where_and_when():
    """R29: the payload of checkpoint.saved has thread_id, step and forced."""
    bus, sink = RuntimeEventBus(), ListSink()
    bus.attach(sink)
    with scope(thread_id="t", run_id="r", step=3, node="root/a"):
        bus.emit(CheckpointSaved(thread_id="t", step=3, forced=False))
    (event,) = sink.events
    assert (event.type, event.payload) == ("checkpoint.saved", {"thread_id": "t", "step": 3, "forced": False})
    assert (event.thread_id, event.run_id, event.step, event.node) == ("t", "r", 3, "root/a")
    assert event.time.tzinfo is not None


def test_every_payload_of_the_catalogue_has_its_own_type_and_explains_itself():
    payloads = [c for _, c in inspect.getmembers(events, inspect.isclass) if issubclass(c, EventPayload)]
    types = [c.type for c in payloads if c is not EventPayload]
    assert len(types) == len(set(types)) > 20
    assert all(dataclasses.fields(c) and c.__doc__ for c in payloads if c is not EventPayload)


def test_filters_choose_types():
    bus, sink = RuntimeEventBus(), ListSink()
    bus.attach(sink, types=["checkpoint.*"])
    bus.emit(tick())
    bus.emit(CheckpointFailed(thread_id="t", step=1, error="full"))
    assert [event.type for event in sink.events] == ["checkpoint.failed"]
    assert sink.of_type("*.failed") == sink.events


def test_a_full_queue_drops_and_counts_and_never_grows():
    bus, gate = RuntimeEventBus(), Gate()
    attachment = bus.attach(gate, queue_size=2)
    bus.emit(tick(0))
    assert gate.entered.wait(10)
    for step in range(1, 6):
        bus.emit(tick(step))
    assert attachment.dropped == 3
    gate.open.set()
    assert bus.flush(10)
    assert gate.seen == [0, 1, 2]


@given(st.lists(st.integers(0, 9), max_size=30))
def test_a_queued_sink_hears_everything_in_order(steps):
    bus, gate = RuntimeEventBus(), Gate()
    gate.open.set()
    bus.attach(gate)
    for step in steps:
        bus.emit(tick(step))
    bus.close()
    assert gate.seen == steps
    bus.emit(tick())
    assert gate.seen == steps, "a detached sink hears nothing"


@pytest.mark.parametrize("inline", [True, False])
def test_a_failing_sink_disturbs_nobody(inline, caplog):
    """R29: sink errors are isolated, logged once and counted."""

    class Broken:
        def handle(self, event) -> None:
            raise RuntimeError("down")

    Broken.inline = inline
    bus, sink = RuntimeEventBus(), ListSink()
    broken = bus.attach(Broken())
    bus.attach(sink)
    bus.emit(tick())
    bus.emit(tick())
    assert bus.flush(10)
    assert (broken.errors, len(sink.events)) == (2, 2)
    assert caplog.text.count("event sink") == 1


def test_events_from_many_threads_have_unique_growing_numbers():
    bus, sink = RuntimeEventBus(), ListSink()
    bus.attach(sink)
    threads = [threading.Thread(target=lambda: [bus.emit(tick()) for _ in range(50)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(event.sequence for event in sink.events) == list(range(1, 401))


def test_emit_uses_the_bus_of_the_scope_and_does_nothing_without_one():
    bus, sink = RuntimeEventBus(), ListSink()
    bus.attach(sink)
    emit(tick())
    with scope(bus=bus):
        emit(tick())
    emit(tick())
    assert len(sink.events) == 1
    assert RuntimeEventBus().emit(tick()) is None


def test_json_lines_are_whole_and_can_be_read_back(tmp_path):
    bus = RuntimeEventBus()
    bus.attach(JsonLinesSink(tmp_path / "deep" / "events.jsonl"))
    bus.emit(ModelDelta(model="m", text="你好\n"))
    bus.emit(RunFinished(thread_id="t", status="SUCCESS", step=2))
    bus.close()
    lines = [json.loads(line) for line in (tmp_path / "deep" / "events.jsonl").read_text().splitlines()]
    assert [line["payload"].get("text", line["type"]) for line in lines] == ["你好\n", "run.finished"]


def test_the_logging_sink_warns_of_failures(caplog):
    bus = RuntimeEventBus()
    bus.attach(LoggingSink())
    with caplog.at_level(logging.INFO):
        bus.emit(tick())
        bus.emit(CheckpointFailed(thread_id="t", step=1, error="full"))
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


def test_a_queue_without_room_is_refused():
    with pytest.raises(ConfigurationError, match="at least 1"):
        RuntimeEventBus().attach(ListSink(), queue_size=0)
