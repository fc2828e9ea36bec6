"""`RedisCheckpointer` and the keys it keeps in Redis.

A thread has four keys, and a fifth while somebody holds it; they share a hash tag, so that a cluster keeps them on one
node::

    jianmu:{thread}:info    hash   uid: another one each time the thread is made; last: number of the newest row;
                                   mark: random, tells that row from another one that got its number after a lossy
                                   failover; base: number of its keyframe
    jianmu:{thread}:rows    hash   number -> body, an envelope or a patch as JSON
    jianmu:{thread}:heads   hash   number -> "base saved_at", the latter in milliseconds
    jianmu:{thread}:steps   zset   step -> number of the row that saved it last
    jianmu:{thread}:lease   hash   token, holder, expires (milliseconds)

What must happen at once is one Lua script. Ids reach the scripts only as keys and arguments, never as code.
"""

# The client's answers are untyped.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import re
from random import getrandbits
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from jianmu._extras import extra
from jianmu.errors import CheckpointLoadError, CheckpointSaveError, CheckpointVersionError, ConfigurationError
from jianmu.memory.checkpoint.delta import Position
from jianmu.memory.checkpoint.engine import EngineCheckpointer, StoredChain, StoredRow
from jianmu.memory.checkpoint.leases import LeaseRecord, locked, stale_writer
from jianmu.namespaces import decode, encode_label

if TYPE_CHECKING:
    from datetime import timedelta

    from redis import Redis

_VERSION = 1
_BATCH = 1000
_DAY = 86_400_000  # the milliseconds that the lease of a dead holder is still kept

_COMMON = """
local info, rows, heads, steps, lease = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local function now()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function text(number)
    return string.format('%.0f', number)
end

local function store(number, mark, base, step, body, ttl)
    redis.call('HSET', info, 'last', number, 'mark', mark, 'base', base)
    redis.call('HSET', rows, number, body)
    redis.call('HSET', heads, number, base .. ' ' .. text(now()))
    redis.call('ZADD', steps, number, step)
    if ttl ~= '' then
        for index = 1, 4 do redis.call('PEXPIRE', KEYS[index], ttl) end
    end
end
"""

# ARGV: uid, previous, its mark, the new mark, step, whole, body, token, ttl. Gives the new row's number, or nothing.
_APPEND = """
if (redis.call('HGET', lease, 'token') or '') ~= ARGV[8] then return false end
local known = redis.call('HMGET', info, 'uid', 'last', 'mark', 'base')
if known[1] ~= ARGV[1] or known[2] ~= ARGV[2] or known[3] ~= ARGV[3] then return false end
local number = text(known[2] + 1)
store(number, ARGV[4], ARGV[6] == '1' and number or known[4], ARGV[5], ARGV[7], ARGV[9])
return number
"""

# ARGV: uid for a new thread, mark, step, body, token, only_first, ttl. Gives the outcome, the uid and the number.
_BEGIN = """
local held = redis.call('HMGET', lease, 'token', 'expires')
if ARGV[5] ~= '' and held[1] ~= ARGV[5] then return {'stale'} end
if ARGV[5] == '' and held[1] and tonumber(held[2]) > now() then return {'locked'} end
local known = redis.call('HMGET', info, 'uid', 'last')
if ARGV[6] == '1' and known[1] then return {'exists'} end
if ARGV[5] == '' then redis.call('DEL', lease) end
local uid = known[1] or ARGV[1]
local number = text((known[2] or 0) + 1)
redis.call('HSET', info, 'uid', uid)
store(number, ARGV[2], number, ARGV[3], ARGV[4], ARGV[7])
return {'stored', uid, number}
"""

# ARGV: step, or nothing for the newest row.
_CHAIN = """
local number = ARGV[1] == '' and redis.call('HGET', info, 'last') or redis.call('ZSCORE', steps, ARGV[1])
if not number then return false end
number = text(number)
local base = string.match(redis.call('HGET', heads, number), '^%d+')
local known = redis.call('HMGET', info, 'uid', 'last', 'mark')
local found = {known[1], number, known[2] == number and known[3] or '0'}
for at = base, number do table.insert(found, redis.call('HGET', rows, text(at))) end
return found
"""

# ARGV: uid, number, body. Turns a row into a keyframe and drops the rows before it.
_CUT = """
local first = tonumber(ARGV[2])
if redis.call('HGET', info, 'uid') ~= ARGV[1] or redis.call('HEXISTS', rows, ARGV[2]) == 0 then return end
redis.call('HSET', rows, ARGV[2], ARGV[3])
redis.call('ZREMRANGEBYSCORE', steps, '-inf', '(' .. ARGV[2])
local number = first - 1
while redis.call('HDEL', rows, text(number)) == 1 do
    redis.call('HDEL', heads, text(number))
    number = number - 1
end
number = first
while true do
    local head = redis.call('HGET', heads, text(number))
    local base, at = string.match(head or '', '^(%d+) (%d+)$')
    if not base or tonumber(base) >= first then break end
    redis.call('HSET', heads, text(number), ARGV[2] .. ' ' .. at)
    number = number + 1
end
if tonumber(redis.call('HGET', info, 'base')) < first then redis.call('HSET', info, 'base', ARGV[2]) end
"""

_DELETE = """
local expires = redis.call('HGET', lease, 'expires')
if expires and tonumber(expires) <= now() then redis.call('DEL', lease) end
return redis.call('DEL', info, rows, heads, steps)
"""

# ARGV: holder, span, the token of a dead holder or nothing, how long a lease is kept after its end.
_TAKE_LEASE = """
local held = redis.call('HMGET', lease, 'token', 'expires')
if held[1] and tonumber(held[2]) > now() and held[1] ~= ARGV[3] then return false end
local time = redis.call('TIME')
local token = math.max(time[1] * 1000000 + time[2], (held[1] or 0) + 1)
redis.call('HSET', lease, 'token', text(token), 'holder', ARGV[1], 'expires', text(now() + ARGV[2]))
redis.call('PEXPIRE', lease, ARGV[2] + ARGV[4])
return text(token)
"""

_READ_LEASE = """
local held = redis.call('HMGET', lease, 'token', 'holder', 'expires')
return held[1] and {held[1], held[2], held[3], tonumber(held[3]) <= now() and 1 or 0}
"""

# ARGV: token, span, how long a lease is kept after its end.
_RENEW_LEASE = """
if redis.call('HGET', lease, 'token') ~= ARGV[1] then return 0 end
redis.call('HSET', lease, 'expires', text(now() + ARGV[2]))
return redis.call('PEXPIRE', lease, ARGV[2] + ARGV[3])
"""

# ARGV: token.
_RELEASE_LEASE = """
if redis.call('HGET', lease, 'token') == ARGV[1] then redis.call('DEL', lease) end
"""


class RedisCheckpointer(EngineCheckpointer):
    """Keeps every step of every thread in Redis, for many processes on many machines.

    A save is one script; it stores what changed since the one before. What a save survives is the server's choice:
    with ``appendfsync always`` it survives a power cut, without an append-only file not even a restart.

    Args:
        url: where the server is, such as ``redis://localhost:6379/0``.
        ttl: a thread that is not saved for this long disappears; None keeps it.
        prefix: what the names of all keys begin with.
        keyframe_every: a whole snapshot every this many saves; None chooses by size.
        lease_ttl: seconds after which the lock of a holder that no longer renews it may be taken over.
        timeout: seconds to wait for the server.

    Raises:
        MissingExtraError: the package redis is not installed.
        ConfigurationError: an argument is wrong.
        CheckpointLoadError: the server can not be reached, or refuses.
        CheckpointVersionError: the keys were made by a newer Jianmu.

    Example:
        >>> checkpointer = RedisCheckpointer("redis://localhost:6379/0")  # doctest: +SKIP
        >>> checkpointer.save_checkpoint("session-42", 1, {"topic": "tea"})  # doctest: +SKIP
    """

    def __init__(
        self,
        url: str,
        *,
        ttl: timedelta | None = None,
        prefix: str = "jianmu",
        keyframe_every: int | None = None,
        lease_ttl: float = 30.0,
        timeout: float = 10.0,
    ) -> None:
        with extra("redis"):
            import redis
        if "{" in prefix or "}" in prefix:
            raise ConfigurationError(f"prefix is {prefix!r}; braces mark the thread in a key, so give one without them")
        milliseconds = None if ttl is None else int(ttl.total_seconds() * 1000)
        if milliseconds is not None and milliseconds < 1:
            raise ConfigurationError(f"ttl is {ttl}; give a span of at least a millisecond, or None")
        try:
            client = redis.Redis.from_url(url, socket_timeout=timeout, socket_connect_timeout=timeout)
        except ValueError as error:
            raise ConfigurationError(f"the url of the Redis server can not be used: {error}") from error
        try:
            _check_version(client, prefix)
            rows = _RedisRows(client, redis.RedisError, prefix, milliseconds)
            super().__init__(rows, keyframe_every=keyframe_every, lease_ttl=lease_ttl)
        except redis.RedisError as error:
            client.close()
            raise CheckpointLoadError(f"Redis can not be used: {error}") from error
        except BaseException:
            client.close()
            raise


class _RedisRows:
    def __init__(self, client: Redis, failure: type[Exception], prefix: str, ttl: int | None) -> None:
        self.failures = (failure,)
        self._client = client
        self._prefix = prefix
        self._ttl = "" if ttl is None else str(ttl)
        self._append = self._script(_APPEND)
        self._begin = self._script(_BEGIN)
        self._chain = self._script(_CHAIN)
        self._cut = self._script(_CUT)
        self._delete = self._script(_DELETE)
        self._take_lease = self._script(_TAKE_LEASE)
        self._read_lease = self._script(_READ_LEASE)
        self._renew_lease = self._script(_RENEW_LEASE)
        self._release_lease = self._script(_RELEASE_LEASE)

    def append(
        self, thread_id: str, previous: Position, step: int, body: bytes, token: int | None, *, whole: bool
    ) -> Position | None:
        held, mark = "" if token is None else token, getrandbits(63)
        arguments = (*previous, mark, step, int(whole), body, held, self._ttl)
        number = self._append(self._keys(thread_id), arguments)
        return None if number is None else Position(previous.thread, int(number), mark)

    def begin(self, thread_id: str, step: int, body: bytes, token: int | None, *, only_first: bool = False) -> Position:
        held, mark = "" if token is None else token, getrandbits(63)
        arguments = (uuid4().hex, mark, step, body, held, int(only_first), self._ttl)
        outcome, *position = self._begin(self._keys(thread_id), arguments)
        if outcome == b"stale":
            raise stale_writer(thread_id, token)
        if outcome == b"locked":
            raise locked(thread_id)
        if outcome == b"exists":
            raise CheckpointSaveError("it has checkpoints already; fork into a new thread", thread_id=thread_id)
        uid, number = position
        return Position(uid, int(number), mark)

    def chain(self, thread_id: str, step: int | None = None) -> StoredChain | None:
        found = self._chain(self._keys(thread_id), ("" if step is None else step,))
        if found is None:
            return None
        uid, number, mark, *bodies = found
        return StoredChain(Position(uid, int(number), int(mark)), bodies)

    def threads(self) -> list[str]:
        head, tail = f"{self._prefix}:{{", "}:info"
        found: set[str] = set()
        for key in self._client.scan_iter(match=f"{_literal(head)}*{_literal(tail)}", count=_BATCH):
            name = key.decode("utf-8", "replace")
            if name.startswith(head) and name.endswith(tail):
                found.add("".join(decode(name[len(head) : -len(tail)])))
        return list(found)

    def listing(self, thread_id: str, limit: int | None, before: int | None) -> list[StoredRow]:
        _, _, heads, steps, _ = self._keys(thread_id)
        end = -1 if limit is None or before is not None else limit - 1
        if limit is not None and limit < 1:
            return []
        known: Any = self._client.zrevrange(steps, 0, end, withscores=True)
        chosen = [(int(step), int(number)) for step, number in known if before is None or int(step) < before][:limit]
        rows: list[StoredRow] = []
        for start in range(0, len(chosen), _BATCH):
            part = chosen[start : start + _BATCH]
            saved: Any = self._client.hmget(heads, [str(number) for _, number in part])
            for (step, number), head in zip(part, saved, strict=True):
                if head is not None:  # else it was pruned meanwhile
                    rows.append(StoredRow(number, step, int(head.split()[1]) / 1000))
        return rows

    def cut(self, thread_id: str, first: Position, body: bytes) -> None:
        self._cut(self._keys(thread_id), (first.thread, first.number, body))

    def delete(self, thread_id: str) -> bool:
        return self._delete(self._keys(thread_id)) > 0

    def take_lease(self, thread_id: str, holder: str, span: float, dead: int | None) -> int | None:
        arguments = (holder, _milliseconds(span), "" if dead is None else dead, _DAY)
        token = self._take_lease(self._keys(thread_id), arguments)
        return None if token is None else int(token)

    def read_lease(self, thread_id: str) -> LeaseRecord | None:
        held = self._read_lease(self._keys(thread_id))
        if held is None:
            return None
        token, holder, expires, expired = held
        return LeaseRecord(int(token), holder.decode(), int(expires) / 1000, bool(expired))

    def renew_lease(self, thread_id: str, token: int, span: float) -> bool:
        return self._renew_lease(self._keys(thread_id), (token, _milliseconds(span), _DAY)) == 1

    def release_lease(self, thread_id: str, token: int) -> None:
        self._release_lease(self._keys(thread_id), (token,))

    def close(self) -> None:
        self._client.close()

    def _script(self, body: str) -> Any:
        return self._client.register_script(_COMMON + body)

    def _keys(self, thread_id: str) -> list[str]:
        thread = f"{self._prefix}:{{{encode_label(thread_id)}}}"
        return [f"{thread}:{name}" for name in ("info", "rows", "heads", "steps", "lease")]


def _check_version(client: Redis, prefix: str) -> None:
    key = f"{prefix}:version"
    client.set(key, _VERSION, nx=True)
    version = int(cast("bytes", client.get(key)))
    if version > _VERSION:
        raise CheckpointVersionError(
            f"the keys {prefix}:* have version {version}, this Jianmu knows versions up to {_VERSION}; update Jianmu"
        )


def _milliseconds(seconds: float) -> int:
    return max(1, int(seconds * 1000))


def _literal(text: str) -> str:
    """Escape what a Redis pattern would take as a wildcard."""
    return re.sub(r"([\[\]*?\\^-])", r"\\\1", text)
