-- name: append
-- Adds a row, if the row that it builds on is still the thread's newest (its id is free, and neither the thread nor
-- that row was removed) and the thread's lease is the writer's.
INSERT INTO jianmu_checkpoints (id, step, whole, saved_at, body)
SELECT :id, :step, :whole, :now, :body
FROM jianmu_threads
WHERE number = :thread AND first < :id AND token IS :token
ON CONFLICT (id) DO NOTHING

-- name: begin
-- Adds a whole envelope, whatever the thread's newest row is.
INSERT INTO jianmu_checkpoints (id, step, whole, saved_at, body) VALUES (:id, :step, 1, :now, :body)

-- name: make_thread
-- Makes a thread unless it is there.
INSERT INTO jianmu_threads (name) VALUES (:name) ON CONFLICT (name) DO NOTHING

-- name: thread
-- Reads a thread's number and its lease.
SELECT number, token, holder, expires_at FROM jianmu_threads WHERE name = :name

-- name: newest_id
-- Finds the newest row of a thread.
SELECT max(id) FROM jianmu_checkpoints WHERE id BETWEEN :thread << 32 AND :thread << 32 | 4294967295

-- name: chain
-- Reads the newest row of a thread, or of a step of it, and what that builds on, the keyframe first.
WITH thread AS (
    SELECT number << 32 AS first, number << 32 | 4294967295 AS last FROM jianmu_threads WHERE name = :name
), chosen AS (
    SELECT id
    FROM jianmu_checkpoints
    WHERE id BETWEEN (SELECT first FROM thread) AND (SELECT last FROM thread)
      AND (:step IS NULL OR step = :step)
    ORDER BY id DESC
    LIMIT 1
), keyframe AS (
    SELECT id
    FROM jianmu_checkpoints
    WHERE id BETWEEN (SELECT first FROM thread) AND (SELECT id FROM chosen) AND whole
    ORDER BY id DESC
    LIMIT 1
)
SELECT id, body
FROM jianmu_checkpoints
WHERE id BETWEEN (SELECT id FROM keyframe) AND (SELECT id FROM chosen)
ORDER BY id

-- name: threads
-- Lists the threads that have rows.
SELECT name
FROM jianmu_threads AS thread
WHERE EXISTS (
    SELECT 1 FROM jianmu_checkpoints WHERE id BETWEEN thread.number << 32 AND thread.number << 32 | 4294967295
)

-- name: listing
-- Lists a thread's checkpoints, the last saved first, each step once. A limit of -1 is none.
WITH thread AS (
    SELECT number << 32 AS first, number << 32 | 4294967295 AS last FROM jianmu_threads WHERE name = :name
)
SELECT max(id) AS id, step, saved_at
FROM jianmu_checkpoints
WHERE id BETWEEN (SELECT first FROM thread) AND (SELECT last FROM thread) AND (:before IS NULL OR step < :before)
GROUP BY step
ORDER BY 1 DESC
LIMIT :limit

-- name: make_keyframe
-- Turns a row into a keyframe.
UPDATE jianmu_checkpoints SET whole = 1, body = :body WHERE id = :id

-- name: drop_before
-- Drops the rows of a thread before one row.
DELETE FROM jianmu_checkpoints WHERE id >= :thread << 32 AND id < :id

-- name: set_first
-- Notes which row of a thread is its first.
UPDATE jianmu_threads SET first = :id WHERE number = :thread

-- name: drop_rows
-- Drops all rows of a thread.
DELETE FROM jianmu_checkpoints WHERE id BETWEEN :thread << 32 AND :thread << 32 | 4294967295

-- name: drop_thread
-- Forgets a thread and its lease.
DELETE FROM jianmu_threads WHERE number = :thread

-- name: drop_empty_thread
-- Forgets a thread that nobody holds and that never had a row.
DELETE FROM jianmu_threads
WHERE name = :name AND token IS NULL AND NOT EXISTS (
    SELECT 1 FROM jianmu_checkpoints
    WHERE id BETWEEN jianmu_threads.number << 32 AND jianmu_threads.number << 32 | 4294967295
)

-- name: next_token
-- Counts the fencing tokens on.
UPDATE jianmu_fence SET token = token + 1

-- name: set_lease
-- Gives a thread's lease to a holder, with the token counted last.
UPDATE jianmu_threads
SET token = (SELECT token FROM jianmu_fence), holder = :holder, expires_at = :expires_at
WHERE name = :name

-- name: keep_lease
-- Puts a lease on a thread that was made again.
UPDATE jianmu_threads SET token = :token, holder = :holder, expires_at = :expires_at WHERE name = :name

-- name: renew_lease
-- Lets a lease run on.
UPDATE jianmu_threads SET expires_at = :expires_at WHERE name = :name AND token = :token

-- name: drop_lease
-- Removes a lease, given its token.
UPDATE jianmu_threads SET token = NULL, holder = NULL, expires_at = NULL WHERE name = :name AND token = :token
