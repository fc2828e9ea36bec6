"""The state of one run: typed fields that leaves read and update, and the checkpoint saves."""

from __future__ import annotations

import inspect
import logging
import threading
from difflib import get_close_matches
from functools import partial
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast, get_args, get_origin
from uuid import uuid4

from pydantic import BaseModel, TypeAdapter, ValidationError

from jianmu.errors import (
    ConfigurationError,
    MigrationError,
    ReducerError,
    StateError,
    StateNotInitializedError,
    StateValidationError,
    UnknownFieldError,
)
from jianmu.serialization import decode
from jianmu.state.dump import FieldChange, FieldDumper, StateDump
from jianmu.state.reducers import Ephemeral, Reducer, append, as_items
from jianmu.state.staging import Stage, current_stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pydantic.fields import FieldInfo

S = TypeVar("S", bound=BaseModel)
Subscriber: TypeAlias = "Callable[[dict[str, Any]], None]"

VERSION_KEY = "$schema_version"

_log = logging.getLogger("jianmu.state")


class StateManager(Generic[S]):
    """Holds the state of one run.

    The schema is a pydantic model. A field is replaced by an update unless its annotation carries a reducer, as in
    ``Annotated[list[Message], append]``; a field marked ``Annotated[T, Ephemeral]`` is never saved.

    Reading or updating one field never copies or checks the others. What `get` returns is the value itself, not a
    copy: change it through `update`. (A value that was changed in place is still saved, but nobody is told.)

    Args:
        schema: the pydantic model that names the fields.
        version: the version of the schema; raise it when stored states need a migration.
        migrations: for an older version a function that turns the fields of a state of that version (a dict of plain
            values) into those of the next one; a version without an entry needs none.

    Raises:
        ConfigurationError: the schema is no pydantic model, is frozen, or a field has two reducers.

    Example:
        >>> from typing import Annotated
        >>> class Chat(BaseModel):
        ...     topic: str = ""
        ...     lines: Annotated[list[str], append] = []
        >>> state = StateManager(Chat)
        >>> state.initialize({"topic": "tea"})
        >>> state.update(lines="hello")
        >>> state.get("lines")
        ['hello']
    """

    def __init__(
        self,
        schema: type[S],
        *,
        version: int = 1,
        migrations: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] | None = None,
    ) -> None:
        _check_schema(schema)
        self.schema = schema
        self.version = version
        self._migrations = dict(migrations or {})
        self._fields = {name: _Field(schema, name, info) for name, info in schema.model_fields.items()}
        self._model: S | None = None
        self._runtime_metadata: dict[str, Any] = {}
        self._subscribers: dict[object, tuple[Subscriber, frozenset[str] | None]] = {}
        self._lock = threading.RLock()
        self._source = uuid4().hex
        self._sequence = 0

    # -- reading and writing ------------------------------------------------------------------------------------

    @property
    def initialized(self) -> bool:
        """Whether `initialize` was called."""
        return self._model is not None

    @property
    def runtime_metadata(self) -> dict[str, Any]:
        """What the runtime keeps beside the state, such as the effect journal; JSON-safe and saved with it."""
        return self._runtime_metadata

    def initialize(self, data: Mapping[str, Any] | S | None = None, *, restoring: bool = False) -> None:
        """Set every field: from ``data`` where it has the field, else to the schema's default.

        Args:
            data: a dump made by `dump_checkpoint`, input values, or a model of the schema.
            restoring: the data is a stored dump: fields that the schema no longer has are dropped with a warning,
                where input with an unknown field is an error.

        Raises:
            UnknownFieldError: input names a field that the schema does not have.
            StateValidationError: a value does not fit, or a required field is missing.
            MigrationError: a stored state is newer than the schema, or a migration failed.
        """
        if isinstance(data, BaseModel):
            values = {name: getattr(data, name) for name in self._fields}
        else:
            values = self._current_values(dict(data or {}), restoring)
        with self._lock:
            self._model = self._validated(values)
        self._notify(self._fields)

    def get(self, field: str) -> Any:
        """Return a field's value, with what the leaf that asks has staged itself.

        Raises:
            UnknownFieldError: the schema has no such field.
            StateNotInitializedError: `initialize` was not called.
        """
        spec = self._spec(field)
        stage = current_stage(self)
        with self._lock:
            value = self._values()[field]
            for staged in stage.pending(field) if stage is not None else ():
                value = spec.reduce(value, staged)
        return value

    def snapshot(self) -> S:
        """Return the committed state as a model of the schema; lists and dicts in it are shared, not copied."""
        with self._lock:
            self._values()
            return cast("S", self._model).model_copy()

    def update(self, changes: Mapping[str, Any] | None = None, /, *, immediate: bool = False, **fields: Any) -> None:
        """Change fields, all or none of them.

        Inside a leaf's task the changes are staged: the leaf sees them at once, everybody else in the tick that sees
        the leaf done. If the leaf fails or the process dies before, they never happened.

        Args:
            changes: field names and values, for names that are no Python words.
            immediate: apply at once even inside a leaf. For progress fields: a leaf that is run again after a crash
                writes them again.
            **fields: field names and values.

        Raises:
            UnknownFieldError: the schema has no such field.
            StateValidationError: a value does not fit.
            ReducerError: a reducer raised.
        """
        updates = {**(changes or {}), **fields}
        for name in updates:
            self._spec(name)
        stage = None if immediate else current_stage(self)
        if stage is None:
            self._apply([updates])
        else:
            self._check(updates, stage)
            stage.updates.append(updates)

    def commit(self, stage: Stage) -> None:
        """Apply what a leaf staged, all or nothing, on the state as it is now."""
        updates, stage.updates = stage.updates, []
        if updates:
            self._apply(updates)

    def subscribe(self, callback: Subscriber, fields: Iterable[str] | None = None) -> Callable[[], None]:
        """Call a function after each change with the new values of the changed fields.

        Args:
            callback: called in the thread that made the change; what it raises is logged and goes no further.
            fields: only changes of these; None for all.

        Returns:
            A function that ends the subscription.
        """
        wanted = None if fields is None else frozenset(fields)
        for name in wanted or ():
            self._spec(name)
        key = object()
        self._subscribers[key] = (callback, wanted)
        return lambda: cast("None", self._subscribers.pop(key, None))

    # -- checkpoints --------------------------------------------------------------------------------------------

    def dump_checkpoint(self) -> StateDump:
        """Return the committed state as JSON-safe data, without ephemeral fields.

        The cost grows with what changed since the last dump. What is stored is checked to come back equal.

        Returns:
            A dict that `initialize` accepts, and that knows which fields changed.

        Raises:
            SerializationError: a value would not come back equal; names its path.
        """
        with self._lock:
            values = self._values()
            encoded: dict[str, Any] = {} if self.version == 1 else {VERSION_KEY: self.version}
            changes: dict[str, FieldChange] = {}
            for name, spec in self._fields.items():
                if spec.dumper is None:
                    continue
                encoded[name], change = spec.dumper.dump(values[name])
                if change is not None:
                    changes[name] = change
            self._sequence += 1
            previous = self._sequence - 1 or None
            return StateDump(encoded, source=self._source, sequence=self._sequence, previous=previous, changes=changes)

    def restore_runtime_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Take over what the runtime had kept beside a restored state."""
        self._runtime_metadata = dict(metadata)

    # -- inside -------------------------------------------------------------------------------------------------

    def _spec(self, name: str) -> _Field:
        try:
            return self._fields[name]
        except KeyError:
            near = get_close_matches(name, self._fields, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it has {sorted(self._fields)}"
            raise UnknownFieldError(f"{self.schema.__name__} has no field {name!r}{hint}") from None

    def _values(self) -> dict[str, Any]:
        if self._model is None:
            raise StateNotInitializedError(f"the {self.schema.__name__} state is empty: call initialize() first")
        return vars(self._model)

    def _validated(self, values: dict[str, Any]) -> S:
        try:
            return self.schema.model_validate(values)
        except ValidationError as error:
            raise StateValidationError(f"{self.schema.__name__}: {error}") from error

    def _current_values(self, data: dict[str, Any], restoring: bool) -> dict[str, Any]:
        stored_version = data.pop(VERSION_KEY, 1)
        values = {name: decode(value) for name, value in data.items()}
        if restoring or stored_version != 1:
            values = self._migrated(values, stored_version)
        unknown = [name for name in values if name not in self._fields]
        if restoring and unknown:
            _log.warning("%s no longer has %s; their stored values are dropped", self.schema.__name__, unknown)
        elif unknown:
            self._spec(unknown[0])
        persistent = {name: value for name, value in values.items() if name in self._fields}
        aliases = {name: self._fields[name].input_name for name in persistent}
        return {aliases[name]: value for name, value in persistent.items()}

    def _migrated(self, values: dict[str, Any], version: Any) -> dict[str, Any]:
        if not isinstance(version, int) or version > self.version:
            raise MigrationError(
                f"the stored state has schema version {version}, {self.schema.__name__} here has {self.version}: "
                "run the newer code"
            )
        for older in range(version, self.version):
            try:
                values = self._migrations.get(older, dict)(values)
            except Exception as error:
                raise MigrationError(
                    f"{self.schema.__name__}: migration from version {older} failed: {error!r}"
                ) from error
        return values

    def _check(self, updates: Mapping[str, Any], stage: Stage) -> None:
        """Raise now, in the leaf, what the commit would raise later."""
        with self._lock:
            for name, value in updates.items():
                spec = self._fields[name]
                if spec.appends:
                    spec.checked_items(value)
                else:
                    candidate = self._values()[name]
                    for staged in (*stage.pending(name), value):
                        candidate = spec.reduce(candidate, staged)
                    spec.validate(candidate)

    def _apply(self, updates: list[Mapping[str, Any]]) -> None:
        with self._lock:
            values = self._values()
            before = {name: values[name] for update in updates for name in update}
            lengths = {name: len(old) for name, old in before.items() if self._fields[name].appends}
            try:
                for update in updates:
                    for name, value in update.items():
                        self._apply_one(name, value)
            except (StateError, ValidationError):
                self._undo(before, lengths)
                raise
        self._notify(before)

    def _apply_one(self, name: str, value: Any) -> None:
        spec, model = self._fields[name], cast("S", self._model)
        if spec.appends:
            vars(model)[name].extend(spec.checked_items(value))
            return
        reduced = spec.reduce(vars(model)[name], value)
        try:
            model.__pydantic_validator__.validate_assignment(model, name, reduced)
        except ValidationError as error:
            raise StateValidationError(f"{spec.path}: {error}") from error

    def _undo(self, before: Mapping[str, Any], lengths: Mapping[str, int]) -> None:
        values = self._values()
        for name, old in before.items():
            values[name] = old
            if name in lengths:
                del old[lengths[name] :]

    def _notify(self, changed: Iterable[str]) -> None:
        if not self._subscribers:
            return
        values = self._values()
        news = {name: values[name] for name in changed}
        for callback, wanted in list(self._subscribers.values()):
            selected = news if wanted is None else {name: news[name] for name in news if name in wanted}
            if selected:
                try:
                    callback(selected)
                except Exception:
                    _log.exception("a state subscriber failed")


class _Field:
    """One field of a schema: its reducer, its checks and its dumper."""

    def __init__(self, schema: type[BaseModel], name: str, info: FieldInfo) -> None:
        self.path = f"{schema.__name__}.{name}"
        self.input_name = info.alias if info.alias is not None else name
        self._schema = schema
        self._name = name
        self._reducer = _reducer_of(info, self.path)
        is_list = get_origin(info.annotation) is list
        checked = schema.__pydantic_decorators__
        plain = not (checked.field_validators or checked.model_validators or checked.validators) and not [
            meta for meta in info.metadata if meta is not self._reducer
        ]
        self.appends = self._reducer is append and is_list and plain
        self._items: TypeAdapter[list[Any]] | None = None
        if self.appends:
            (item,) = get_args(info.annotation)
            self._items = TypeAdapter(cast("Any", GenericAlias(list, (item,))))
        ephemeral = any(meta is Ephemeral or isinstance(meta, Ephemeral) for meta in info.metadata)
        self.dumper = None if ephemeral else FieldDumper(f"state.{name}", info)

    def reduce(self, old: Any, new: Any) -> Any:
        if self._reducer is None:
            return new
        try:
            return self._reducer(old, new)
        except Exception as error:
            raise ReducerError(f"{self.path}: its reducer {_name_of(self._reducer)} raised {error!r}") from error

    def checked_items(self, value: Any) -> list[Any]:
        assert self._items is not None
        try:
            return self._items.validate_python(as_items(value))
        except ValidationError as error:
            raise StateValidationError(f"{self.path}: {error}") from error

    def validate(self, value: Any) -> None:
        blank = self._schema.model_construct()
        try:
            blank.__pydantic_validator__.validate_assignment(blank, self._name, value)
        except ValidationError as error:
            raise StateValidationError(f"{self.path}: {error}") from error


def _check_schema(schema: Any) -> None:
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
        raise ConfigurationError(f"a state schema is a pydantic model class, not {schema!r}")
    if schema.model_config.get("frozen"):
        raise ConfigurationError(f"{schema.__name__} is frozen; a state schema must allow its fields to change")


def _reducer_of(info: FieldInfo, path: str) -> Reducer | None:
    metadata: list[Any] = info.metadata
    found: list[Any] = [meta for meta in metadata if inspect.isroutine(meta) or isinstance(meta, partial)]
    if len(found) > 1:
        raise ConfigurationError(f"{path} has {len(found)} reducers; use one function that does both")
    return found[0] if found else None


def _name_of(function: Any) -> str:
    return getattr(function, "__qualname__", repr(function))
