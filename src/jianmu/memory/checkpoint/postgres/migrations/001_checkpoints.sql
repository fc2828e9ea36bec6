-- {schema} is replaced by the quoted name of the schema.

-- A thread, with the lease on it while somebody holds one. A save locks its row until the save is done.
CREATE TABLE {schema}.jianmu_threads (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       bytea NOT NULL UNIQUE,  -- the thread id as UTF-8; text could not hold every id
    token      bigint,                 -- the lease's fencing token; NULL: nobody holds the thread
    holder     text,
    expires_at timestamptz
);

CREATE SEQUENCE {schema}.jianmu_fence AS bigint;

-- One save. Numbers are never given twice, and grow along a thread because its row is locked.
CREATE TABLE {schema}.jianmu_checkpoints (
    thread   bigint NOT NULL,
    number   bigint GENERATED ALWAYS AS IDENTITY,
    step     bigint NOT NULL,
    whole    boolean NOT NULL,  -- true: the body is an envelope, a keyframe; false: it is a patch on the row before
    saved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    body     bytea NOT NULL,    -- JSON
    PRIMARY KEY (thread, number)
);
CREATE INDEX jianmu_keyframes ON {schema}.jianmu_checkpoints (thread, number) WHERE whole;
-- Compressing a body would take longer than writing it.
ALTER TABLE {schema}.jianmu_checkpoints ALTER COLUMN body SET STORAGE EXTERNAL;

-- Adds a row, if the one that it builds on is still the thread's newest and the thread's lease is the writer's.
-- Returns the new row's number, else NULL.
CREATE FUNCTION {schema}.jianmu_append(
    p_thread bigint, p_previous bigint, p_step bigint, p_whole boolean, p_body bytea, p_token bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    held   bigint;
    newest bigint;
BEGIN
    SELECT token INTO held FROM {schema}.jianmu_threads WHERE number = p_thread FOR NO KEY UPDATE;
    IF NOT FOUND OR held IS DISTINCT FROM p_token THEN
        RETURN NULL;
    END IF;
    SELECT number INTO newest FROM {schema}.jianmu_checkpoints WHERE thread = p_thread ORDER BY number DESC LIMIT 1;
    IF newest IS DISTINCT FROM p_previous THEN
        RETURN NULL;
    END IF;
    INSERT INTO {schema}.jianmu_checkpoints (thread, step, whole, body)
    VALUES (p_thread, p_step, p_whole, p_body)
    RETURNING number INTO newest;
    RETURN newest;
END
$$;

-- Adds a whole envelope, and makes the thread when it is new. The outcome is 'stored', 'stale' (the writer's lease was
-- lost), 'locked' (somebody else holds the thread) or 'exists' (the row should have been the first).
CREATE FUNCTION {schema}.jianmu_begin(
    p_name bytea, p_step bigint, p_body bytea, p_token bigint, p_only_first boolean,
    OUT outcome text, OUT thread bigint, OUT number bigint
) LANGUAGE plpgsql AS $$
DECLARE
    known {schema}.jianmu_threads;
BEGIN
    INSERT INTO {schema}.jianmu_threads (name) VALUES (p_name) ON CONFLICT (name) DO NOTHING;
    SELECT * INTO known FROM {schema}.jianmu_threads AS t WHERE t.name = p_name FOR NO KEY UPDATE;
    IF p_token IS NOT NULL AND known.token IS DISTINCT FROM p_token THEN
        outcome := 'stale';
    ELSIF p_token IS NULL AND known.token IS NOT NULL AND known.expires_at > clock_timestamp() THEN
        outcome := 'locked';
    ELSIF p_only_first AND EXISTS (SELECT FROM {schema}.jianmu_checkpoints AS c WHERE c.thread = known.number) THEN
        outcome := 'exists';
    ELSE
        IF p_token IS NULL AND known.token IS NOT NULL THEN
            -- The lease is over. Without it its holder, should he come back, is refused.
            UPDATE {schema}.jianmu_threads AS t
            SET token = NULL, holder = NULL, expires_at = NULL
            WHERE t.number = known.number;
        END IF;
        outcome := 'stored';
        thread := known.number;
        INSERT INTO {schema}.jianmu_checkpoints AS c (thread, step, whole, body)
        VALUES (known.number, p_step, true, p_body)
        RETURNING c.number INTO number;
    END IF;
END
$$;
