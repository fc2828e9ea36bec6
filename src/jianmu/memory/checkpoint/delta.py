"""What changed between two snapshots of a thread, and when a whole one is due.

A thread is stored as chains: a keyframe, which is a whole envelope, and the patches that follow it. Reading is the
newest keyframe with its patches applied. Nothing here reads or writes storage.

A patch is JSON data. Each of its four parts is there only when it has something to say::

    {"=": {key: value},    set these
     "+": {key: items},    append these items to a list
     "-": [key, ...],      remove these
     "/": {key: patch}}    look inside these

The envelope's own fields are treated alike: ``state``, ``tree`` and ``runtime_metadata`` are dicts to look inside.
"""

# Values of any type pass through here, so "partially unknown" is the normal case and says nothing.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from operator import is_
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

import orjson

from jianmu.errors import CheckpointLoadError, ConfigurationError, SerializationError
from jianmu.memory.checkpoint.envelope import extract_checkpoint_payload, write_envelope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self

    from jianmu.memory.checkpoint.protocol import Envelope

# What a value is compared by: small values as they are, lists and deep dicts as their JSON. Equal tokens of one type
# mean equal JSON, so 1, 1.0 and True stay apart; and a token never changes when the value it was made from does.
Token: TypeAlias = Any
Patch: TypeAlias = dict[str, Any]

_DEPTH = 4  # the envelope, its parts, their fields, and the keys of a field
_ATOMS = frozenset({str, int, bool, type(None)})
_ABSENT: Any = object()
_ROW_COST = 1024  # reading one more patch takes about as long as reading this many bytes more of a keyframe
_CHAIN_COST = 64 * _ROW_COST  # a chain of small patches may grow to about this many even when its keyframe is small


class Position(NamedTuple):
    """Where a row stands.

    Attributes:
        thread: the engine's key of the thread, never used again.
        number: grows along the thread.
        mark: tells the row from another one that came to have its number, as when a server fell back to an older copy
            of its data; an engine without such servers needs none.
    """

    thread: Any
    number: int
    mark: int = 0


class Chain(NamedTuple):
    """The size of a keyframe and of the patches on it."""

    keyframe_bytes: int
    patches: int = 0
    patch_bytes: int = 0

    @classmethod
    def of(cls, bodies: Sequence[bytes]) -> Chain:
        """Measure a stored chain."""
        return cls(len(bodies[0]), len(bodies) - 1, sum(map(len, bodies)) - len(bodies[0]))


class Picture:
    """A snapshot as it was saved, kept to be compared with the next one.

    Args:
        envelope: the snapshot.
        dump: the state dump it was made from. When it tells where it comes from (``source``, ``sequence``,
            ``previous`` and ``changes``, as `jianmu.state.StateDump` does), its values count as JSON data that nobody
            changes, and the comparison costs what changed; else the state is checked, and a copy kept and compared.

    Raises:
        SerializationError: a value would not come back equal from JSON.
    """

    def __init__(self, envelope: Envelope, dump: Mapping[str, Any] | None = None) -> None:
        self._dump: Any = dump if isinstance(getattr(dump, "source", None), str) else None
        self._live: dict[str, Any] = envelope["state"] if self._dump is not None else {}
        self._state: Token = _ABSENT
        try:
            if self._dump is None:
                self._state = _token(envelope["state"], _DEPTH - 1)
            self._others: dict[str, Token] = {
                key: _token(value, _DEPTH - 1) for key, value in envelope.items() if key != "state"
            }
        except TypeError as error:
            raise _refusal(envelope, error) from error

    def patch_from(self, older: Picture) -> Patch:
        """Return what turns the older snapshot into this one."""
        patch = _compare(older._others, self._others) or {}
        state = self._state_patch_from(older)
        if state is None:
            patch.setdefault("=", {})["state"] = _content(self._state_tokens())
        elif state:
            patch.setdefault("/", {})["state"] = state
        return patch

    def _state_patch_from(self, older: Picture) -> Patch | None:
        dump, known = self._dump, older._dump
        if dump is None or known is None or dump.source != known.source or list(self._live) != list(older._live):
            return _compare(older._state_tokens(), self._state_tokens())
        changes: Mapping[str, Any] = dump.changes if dump.previous == known.sequence else {}
        patch: Patch = {}
        for key, value in self._live.items():
            before = older._live[key]
            if value is not before:
                count = _grown_by(before, value, changes.get(key))
                if count:
                    patch.setdefault("+", {})[key] = value[-count:]
                else:
                    patch.setdefault("=", {})[key] = value
        return patch

    def _state_tokens(self) -> dict[str, Token]:
        if self._state is _ABSENT:
            self._state = _token(self._live, _DEPTH - 1)
        return self._state


class Baseline:
    """What the newest stored row of a thread holds, as far as the next save needs to know.

    Args:
        position: where that row stands.
        chain: the size of its chain.
        picture: what it holds.
    """

    def __init__(self, position: Position, chain: Chain, picture: Picture | None) -> None:
        self.position = position
        self.chain = chain
        self._picture = picture
        self._bodies: Sequence[bytes] = ()

    @classmethod
    def stored(cls, position: Position, bodies: Sequence[bytes]) -> Self:
        """Make a baseline of a chain as it was read; it is decoded when it is first compared with something."""
        baseline = cls(position, Chain.of(bodies), None)
        baseline._bodies = bodies
        return baseline

    def covers(self, other: Baseline) -> bool:
        """Tell whether this is of the same row of the same thread, or of a later one."""
        return self.position.thread == other.position.thread and self.position.number >= other.position.number

    @property
    def picture(self) -> Picture | None:
        """What the row holds; None when it holds something that nothing can be compared with."""
        if self._picture is None and self._bodies:
            bodies, self._bodies = self._bodies, ()
            self._picture = _picture_of(bodies)
        return self._picture


class Row(NamedTuple):
    """What the next save stores: its JSON, whether that is a whole envelope, and its chain with it."""

    body: bytes
    whole: bool
    chain: Chain

    @classmethod
    def keyframe(cls, envelope: Envelope) -> Row:
        """Store the whole envelope.

        Raises:
            SerializationError: a value of a state dump is no JSON data after all.
        """
        body = _written(envelope, envelope)
        return cls(body, whole=True, chain=Chain(len(body)))


class KeyframeRule:
    """Decides whether a save stores a patch or a whole envelope.

    Args:
        every: a keyframe every this many saves; None lets a chain grow until reading its patches costs half as much as
            reading its keyframe, so that what a growing thread stores stays proportional to what was said in it.
    """

    def __init__(self, every: int | None = None) -> None:
        if every is not None and every < 1:
            raise ConfigurationError(f"keyframe_every is {every!r}; give 1 or more saves, or None")
        self._every = every

    def next_row(self, baseline: Baseline, envelope: Envelope, picture: Picture) -> Row:
        """Return what to store behind a row.

        Args:
            baseline: that row.
            envelope: the snapshot to be saved.
            picture: its picture.

        Raises:
            SerializationError: a value of a state dump is no JSON data after all.
        """
        chain, older = baseline.chain, baseline.picture
        if older is None or (self._every is not None and chain.patches + 1 >= self._every):
            return Row.keyframe(envelope)
        patch = _written(picture.patch_from(older), envelope)
        longer = Chain(chain.keyframe_bytes, chain.patches + 1, chain.patch_bytes + len(patch))
        if self._every is None and _too_long(longer, patch):
            return Row.keyframe(envelope)
        return Row(patch, whole=False, chain=longer)


B = TypeVar("B", bound=Baseline)


class Baselines(Generic[B]):
    """The baselines of the threads used last; safe to use from several threads.

    Args:
        limit: how many to keep.
    """

    def __init__(self, limit: int = 128) -> None:
        self._limit = limit
        self._kept: dict[str, B] = {}
        self._lock = Lock()

    def get(self, thread_id: str) -> B | None:
        """Return a thread's baseline, if it is kept."""
        return self._kept.get(thread_id)

    def put(self, thread_id: str, baseline: B) -> None:
        """Keep a thread's baseline, unless one of the same row or a newer one is kept already."""
        with self._lock:
            known = self._kept.pop(thread_id, None)
            if known is not None and known.covers(baseline):
                baseline = known
            self._kept[thread_id] = baseline
            if len(self._kept) > self._limit:
                del self._kept[next(iter(self._kept))]

    def drop(self, thread_id: str) -> None:
        """Forget a thread's baseline."""
        with self._lock:
            self._kept.pop(thread_id, None)


def read_chain(bodies: Sequence[bytes]) -> Any:
    """Read a keyframe and apply its patches.

    Args:
        bodies: the keyframe, then its patches in the order they were saved.

    Returns:
        Fresh data: what was saved last.

    Raises:
        CheckpointLoadError: a body is damaged, or a patch does not fit.
    """
    try:
        value = orjson.loads(bodies[0])
        for patch in orjson.loads(b"[" + b",".join(bodies[1:]) + b"]"):
            apply_patch(value, patch)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CheckpointLoadError(f"a stored row is damaged: {error!r}") from error
    return value


def apply_patch(target: dict[str, Any], patch: Patch) -> None:
    """Change a dict in place as a patch says."""
    for key, inner in patch.get("/", {}).items():
        apply_patch(target[key], inner)
    for key, items in patch.get("+", {}).items():
        target[key].extend(items)
    for key in patch.get("-", ()):
        del target[key]
    target.update(patch.get("=", {}))


def _written(content: Any, envelope: Envelope) -> bytes:
    try:
        return orjson.dumps(content)
    except TypeError as error:
        raise _refusal(envelope, error) from error


def _refusal(envelope: Envelope, error: TypeError) -> SerializationError:
    """Return the error that says where a value sits that JSON can not hold."""
    try:
        write_envelope(envelope)
    except SerializationError as found:
        return found
    return SerializationError("checkpoint", str(error))


def _picture_of(bodies: Sequence[bytes]) -> Picture | None:
    try:
        envelope = extract_checkpoint_payload(read_chain(bodies))
    except CheckpointLoadError:
        return None  # a damaged thread can still be saved to
    return None if envelope is None else Picture(envelope)


def _too_long(chain: Chain, patch: bytes) -> bool:
    reading_patches = chain.patch_bytes + _ROW_COST * chain.patches
    return len(patch) * 2 > chain.keyframe_bytes or reading_patches > max(_CHAIN_COST, chain.keyframe_bytes // 2)


def _token(value: Any, depth: int) -> Token:
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict and depth:
        return {key: _token(item, depth - 1) for key, item in value.items()}
    data = orjson.dumps(value)
    back = orjson.loads(data)
    if back != value:  # a tuple, NaN or a date, which the writer changes without a word
        raise TypeError(f"{value!r:.200} would come back as {back!r:.200}")
    return data


def _compare(old: dict[str, Token], new: dict[str, Token]) -> Patch | None:
    """Return the patch between two dicts of tokens; None when only setting the whole gives the new order of keys."""
    keys = list(new)
    removed: list[str] = []
    before: Iterable[Token] = old.values()
    if list(old) != keys:
        removed = [key for key in old if key not in new]
        if [*(key for key in old if key in new), *(key for key in keys if key not in old)] != keys:
            return None
        before = [old.get(key, _ABSENT) for key in keys]
    patch: Patch = {"-": removed} if removed else {}
    for key, was, value in zip(keys, before, new.values(), strict=True):
        if value is not was:
            _compare_one(patch, key, was, value)
    return patch


def _compare_one(patch: Patch, key: str, was: Token, value: Token) -> None:
    kind = type(value)
    if type(was) is not kind:
        patch.setdefault("=", {})[key] = _content(value)
    elif kind is dict:
        inner = _compare(was, value)
        if inner is None:
            patch.setdefault("=", {})[key] = _content(value)
        elif inner:
            patch.setdefault("/", {})[key] = inner
    elif was != value:
        items = _appended(was, value) if kind is bytes else None
        if items is None:
            patch.setdefault("=", {})[key] = _content(value)
        else:
            patch.setdefault("+", {})[key] = orjson.Fragment(items)


def _appended(before: bytes, value: bytes) -> bytes | None:
    """Return the JSON of the items that a list grew by at its end; None when it is no such list."""
    if before == b"[]":
        return value if value.startswith(b"[") else None
    if not before.startswith(b"["):
        return None
    kept = len(before) - 1
    # The same writer wrote both, so the same bytes up to here followed by a comma are the same items.
    if value.startswith(before[:kept]) and value[kept : kept + 1] == b",":
        return b"[" + value[kept + 1 :]
    return None


def _content(token: Token) -> Any:
    if type(token) is bytes:
        return orjson.Fragment(token)
    if type(token) is dict:
        return {key: _content(item) for key, item in cast("dict[str, Any]", token).items()}
    return token


def _grown_by(before: Any, value: Any, change: Any) -> int:
    """Return by how many items a list of unchangeable values grew at its end; 0 when it did not or is none."""
    if type(before) is not list or type(value) is not list:
        return 0
    count = len(cast("list[Any]", value)) - len(cast("list[Any]", before))
    if count <= 0:
        return 0
    said = change is not None and change[0] == "append" and change[1] == count
    return count if said or all(map(is_, before, value)) else 0
