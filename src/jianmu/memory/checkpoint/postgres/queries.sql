-- name: append
-- Adds a row, if the one that it builds on is there and still the thread's newest (its number is free, and the thread
-- was neither deleted nor cut behind it) and the thread's lease is the writer's.
INSERT INTO {schema}.jianmu_checkpoints (thread, number, mark, step, whole, body)
SELECT t.number, c.number + 1, %(mark)s::bigint, %(step)s::bigint, %(whole)s, %(body)s
FROM {schema}.jianmu_threads AS t
JOIN {schema}.jianmu_checkpoints AS c ON c.thread = t.number AND c.number = %(previous)s AND c.mark = %(previous_mark)s
WHERE t.number = %(thread)s AND t.first <= %(previous)s AND t.token IS NOT DISTINCT FROM %(token)s::bigint
FOR NO KEY UPDATE OF t
ON CONFLICT (thread, number) DO NOTHING
RETURNING number

-- name: begin
-- Adds a whole envelope, whatever the thread's newest row is.
SELECT outcome, p_thread, p_number
FROM {schema}.jianmu_begin(%(name)s, %(mark)s, %(step)s, %(body)s, %(token)s, %(only_first)s)

-- name: chain
-- Reads the newest row of a thread, or of a step of it, and what that builds on, the keyframe first.
WITH chosen AS (
    SELECT thread, number
    FROM {schema}.jianmu_checkpoints
    WHERE thread = (SELECT number FROM {schema}.jianmu_threads WHERE name = %(name)s)
      AND (%(step)s::bigint IS NULL OR step = %(step)s::bigint)
    ORDER BY thread DESC, number DESC
    LIMIT 1
)
SELECT thread, number, mark, body
FROM {schema}.jianmu_checkpoints
WHERE thread = (SELECT thread FROM chosen)
  AND number <= (SELECT number FROM chosen)
  AND number >= (
      SELECT max(number)
      FROM {schema}.jianmu_checkpoints
      WHERE thread = (SELECT thread FROM chosen) AND number <= (SELECT number FROM chosen) AND whole
  )
ORDER BY number

-- name: threads
-- Lists the threads that have rows.
SELECT t.name
FROM {schema}.jianmu_threads AS t
WHERE EXISTS (SELECT FROM {schema}.jianmu_checkpoints AS c WHERE c.thread = t.number)

-- name: listing
-- Lists a thread's checkpoints, the last saved first, each step once. A limit of NULL is none.
SELECT number, step, extract(epoch FROM saved_at)::float8
FROM (
    SELECT DISTINCT ON (c.step) c.number, c.step, c.saved_at
    FROM {schema}.jianmu_threads AS t
    JOIN {schema}.jianmu_checkpoints AS c ON c.thread = t.number
    WHERE t.name = %(name)s AND (%(before)s::numeric IS NULL OR c.step < %(before)s::numeric)
    ORDER BY c.step, c.number DESC
) AS latest
ORDER BY number DESC
LIMIT %(limit)s::bigint

-- name: cut
-- Turns a row into a keyframe and drops the thread's rows before it.
WITH thread AS (
    SELECT number FROM {schema}.jianmu_threads WHERE number = %(thread)s FOR NO KEY UPDATE
), kept AS (
    UPDATE {schema}.jianmu_checkpoints AS c
    SET whole = true, body = %(body)s
    FROM thread
    WHERE c.thread = thread.number AND c.number = %(number)s
    RETURNING c.thread, c.number
), noted AS (
    UPDATE {schema}.jianmu_threads AS t SET first = kept.number FROM kept WHERE t.number = kept.thread
)
DELETE FROM {schema}.jianmu_checkpoints AS c USING kept WHERE c.thread = kept.thread AND c.number < kept.number

-- name: lock_thread
-- Waits for whoever writes a thread and holds off others until the end of the transaction.
SELECT number FROM {schema}.jianmu_threads WHERE name = %(name)s FOR UPDATE

-- name: drop_rows
-- Drops all rows of a thread and counts them.
WITH dropped AS (DELETE FROM {schema}.jianmu_checkpoints WHERE thread = %(thread)s RETURNING 1)
SELECT count(*) FROM dropped

-- name: drop_thread
-- Forgets a thread; gives its lease, if that is not over.
WITH dropped AS (
    DELETE FROM {schema}.jianmu_threads WHERE number = %(thread)s RETURNING name, token, holder, expires_at
)
SELECT name, token, holder, expires_at FROM dropped WHERE token IS NOT NULL AND expires_at > clock_timestamp()

-- name: keep_lease
-- Makes a thread again that somebody holds.
INSERT INTO {schema}.jianmu_threads (name, token, holder, expires_at) VALUES (%s, %s, %s, %s)

-- name: drop_empty_thread
-- Forgets a thread that nobody holds and that never had a row.
DELETE FROM {schema}.jianmu_threads AS t
WHERE t.name = %(name)s
  AND t.token IS NULL
  AND NOT EXISTS (SELECT FROM {schema}.jianmu_checkpoints AS c WHERE c.thread = t.number)

-- name: take_lease
-- Takes a thread's lease if nobody has it, its time is over, or its holder is known to be dead.
INSERT INTO {schema}.jianmu_threads AS t (name, token, holder, expires_at)
VALUES (
    %(name)s, nextval('{schema}.jianmu_fence'), %(holder)s, clock_timestamp() + make_interval(secs => %(span)s)
)
ON CONFLICT (name) DO UPDATE
SET token = nextval('{schema}.jianmu_fence'), holder = excluded.holder, expires_at = excluded.expires_at
WHERE t.token IS NULL OR t.expires_at <= clock_timestamp() OR t.token = %(dead)s
RETURNING t.token

-- name: read_lease
-- Reads the lease on a thread.
SELECT token, holder, extract(epoch FROM expires_at)::float8, expires_at <= clock_timestamp()
FROM {schema}.jianmu_threads
WHERE name = %(name)s AND token IS NOT NULL

-- name: renew_lease
-- Lets a lease run on.
UPDATE {schema}.jianmu_threads
SET expires_at = clock_timestamp() + make_interval(secs => %(span)s)
WHERE name = %(name)s AND token = %(token)s
RETURNING token

-- name: drop_lease
-- Removes a lease, given its token.
UPDATE {schema}.jianmu_threads
SET token = NULL, holder = NULL, expires_at = NULL
WHERE name = %(name)s AND token = %(token)s
