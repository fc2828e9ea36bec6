"""The bus: tells attached sinks what happens, without ever disturbing what happens.

Cheap sinks hear an event at once. Sinks that write somewhere have a bounded queue each and a thread that empties it;
when a queue is full the new event is dropped for that sink and counted. What a sink raises is logged once and counted.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import threading
from collections import deque
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from uuid import uuid4
from weakref import WeakSet

from jianmu.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from jianmu.events.catalog import EventPayload

_log = logging.getLogger("jianmu.events")


@dataclass(frozen=True, kw_only=True)
class RuntimeEvent:
    """Something that happened.

    Attributes:
        id: unique.
        sequence: grows by one with each event of the bus.
        type: such as ``checkpoint.saved``.
        time: when, timezone-aware.
        thread_id: the run's thread, if it happened in one.
        run_id: the call of ``run``.
        step: the tick, where one is known.
        node: path of the node, where one is known.
        payload: the fields of the payload, see `jianmu.events.catalog`.
    """

    id: str
    sequence: int
    type: str
    time: datetime
    thread_id: str | None
    run_id: str | None
    step: int | None
    node: str | None
    payload: dict[str, Any]


@runtime_checkable
class EventSink(Protocol):
    """Receives events. A class attribute ``inline = True`` says that ``handle`` is cheap and may run at once."""

    def handle(self, event: RuntimeEvent) -> None:
        """Take one event."""
        ...


class Attachment:
    """A sink on a bus.

    Attributes:
        dropped: events lost because the queue was full.
        errors: exceptions the sink raised.
    """

    def __init__(self, bus: RuntimeEventBus, sink: EventSink, types: tuple[str, ...] | None, queue_size: int) -> None:
        self._bus = bus
        self._sink = sink
        self._types = types
        self._queue_size = queue_size
        self._queue: deque[RuntimeEvent] = deque()
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self.dropped = 0
        self.errors = 0

    def detach(self) -> None:
        """Deliver what is queued, then hear nothing more."""
        self._bus._forget(self)  # pyright: ignore[reportPrivateUsage]
        self.flush()
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def deliver(self, event: RuntimeEvent) -> None:
        """Hand over one event, at once or through the queue."""
        if self._types is not None and not any(fnmatchcase(event.type, pattern) for pattern in self._types):
            return
        if getattr(self._sink, "inline", False):
            self._handle(event)
            return
        with self._changed:
            if len(self._queue) >= self._queue_size:
                self.dropped += 1
                return
            self._queue.append(event)
            if self._thread is None:
                self._thread = threading.Thread(target=self._drain, name="jianmu-events", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout: float | None = 5.0) -> bool:
        """Wait until the queue is empty.

        Args:
            timeout: seconds to wait at most; None for no limit.

        Returns:
            True if everything was delivered.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue and not self._busy, timeout)

    def _drain(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._queue or self._closed)
                if not self._queue:
                    return
                event = self._queue.popleft()
                self._busy = True
            self._handle(event)

    def _handle(self, event: RuntimeEvent) -> None:
        try:
            self._sink.handle(event)
        except Exception:
            self.errors += 1
            if self.errors == 1:
                _log.exception("event sink %r failed; further failures are only counted", self._sink)


class RuntimeEventBus:
    """Passes events to sinks.

    Attach sinks before the run starts: they then also hear what was restored.

    Example:
        >>> from jianmu.events import ListSink, TickFinished
        >>> bus, seen = RuntimeEventBus(), ListSink()
        >>> attachment = bus.attach(seen, types=["tick.*"])
        >>> event = bus.emit(TickFinished(step=1, status="RUNNING"))
        >>> seen.events[0].payload
        {'step': 1, 'status': 'RUNNING'}
    """

    def __init__(self) -> None:
        self._attachments: tuple[Attachment, ...] = ()
        self._lock = threading.Lock()
        self._sequence = itertools.count(1)
        _open_buses.add(self)

    @property
    def has_sinks(self) -> bool:
        """Whether anybody listens."""
        return bool(self._attachments)

    def attach(self, sink: EventSink, *, types: Iterable[str] | None = None, queue_size: int = 10_000) -> Attachment:
        """Let a sink hear events.

        Args:
            sink: what hears them.
            types: only these types; ``*`` stands for any text, as in ``"checkpoint.*"``. None for all.
            queue_size: how many events may wait for a sink that is not inline.

        Returns:
            A handle to detach it, with its counters.
        """
        if queue_size < 1:
            raise ConfigurationError(f"queue_size is {queue_size}; a sink needs room for at least 1 event")
        attachment = Attachment(self, sink, None if types is None else tuple(types), queue_size)
        with self._lock:
            self._attachments = (*self._attachments, attachment)
        return attachment

    def emit(
        self,
        payload: EventPayload,
        *,
        thread_id: str | None = None,
        run_id: str | None = None,
        step: int | None = None,
        node: str | None = None,
    ) -> RuntimeEvent | None:
        """Tell every sink that something happened; from any thread.

        Args:
            payload: what happened.
            thread_id: where; by default that of the current `scope`, as are the next three.
            run_id: in which call of ``run``.
            step: in which tick.
            node: in which node.

        Returns:
            The event, or None when nobody listens.
        """
        attachments = self._attachments
        if not attachments:
            return None
        place = _scope.get()
        with self._lock:
            event = RuntimeEvent(
                id=uuid4().hex,
                sequence=next(self._sequence),
                type=payload.type,
                time=datetime.now(UTC),
                thread_id=thread_id or place.get("thread_id"),
                run_id=run_id or place.get("run_id"),
                step=place.get("step") if step is None else step,
                node=node or place.get("node"),
                payload={field.name: getattr(payload, field.name) for field in fields(payload)},
            )
        for attachment in attachments:
            attachment.deliver(event)
        return event

    def flush(self, timeout: float | None = 5.0) -> bool:
        """Wait until every queue is empty; True if that came about within ``timeout`` seconds for each."""
        emptied = [attachment.flush(timeout) for attachment in self._attachments]
        return all(emptied)

    def close(self) -> None:
        """Deliver what is queued and detach all sinks."""
        for attachment in self._attachments:
            attachment.detach()

    def _forget(self, attachment: Attachment) -> None:
        with self._lock:
            self._attachments = tuple(other for other in self._attachments if other is not attachment)


_open_buses: WeakSet[RuntimeEventBus] = WeakSet()
_scope: ContextVar[dict[str, Any]] = ContextVar("jianmu_event_scope", default={})  # noqa: B039 - never changed in place


@contextmanager
def scope(**place: Any) -> Generator[None]:
    """Say where events of this block, and of tasks started in it, happen.

    Args:
        **place: any of ``bus``, ``thread_id``, ``run_id``, ``step`` and ``node``; what is not given stays as it is.
    """
    token = _scope.set({**_scope.get(), **place})
    try:
        yield
    finally:
        _scope.reset(token)


def emit(payload: EventPayload) -> None:
    """Tell the bus of the current `scope` that something happened; without a bus nothing is done."""
    bus: RuntimeEventBus | None = _scope.get().get("bus")
    if bus is not None:
        bus.emit(payload)


@atexit.register
def _flush_all() -> None:
    for bus in list(_open_buses):
        bus.flush(2.0)
