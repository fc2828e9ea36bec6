-- {schema} is replaced by the quoted name of the schema.

-- A thread, with the lease on it while somebody holds one. Whoever writes the thread locks its row until he is done.
-- The number of a deleted thread is never given to another one.
CREATE TABLE {schema}.jianmu_threads (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       bytea NOT NULL UNIQUE,      -- the thread id as UTF-8; text could not hold every id
    first      bigint NOT NULL DEFAULT 0,  -- rows below this number were pruned
    token      bigint,                     -- the lease's fencing token; NULL: nobody holds the thread
    holder     text,
    expires_at timestamptz
);

CREATE SEQUENCE {schema}.jianmu_fence AS bigint;

-- One save. Numbers count a thread's saves without gaps.
CREATE TABLE {schema}.jianmu_checkpoints (
    thread   bigint NOT NULL,
    number   bigint NOT NULL,
    mark     bigint NOT NULL,   -- random; tells a row from another one that got its number after a lossy failover
    step     bigint NOT NULL,
    whole    boolean NOT NULL,  -- true: the body is an envelope, a keyframe; false: it is a patch on the row before
    saved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    body     bytea NOT NULL,    -- JSON
    PRIMARY KEY (thread, number)
);
CREATE INDEX jianmu_keyframes ON {schema}.jianmu_checkpoints (thread, number) WHERE whole;
-- Compressing a body would take longer than writing it.
ALTER TABLE {schema}.jianmu_checkpoints ALTER COLUMN body SET STORAGE EXTERNAL;

-- Adds a whole envelope, and makes the thread when it is new. The outcome is 'stored', 'stale' (the writer's lease was
-- lost), 'locked' (somebody else holds the thread) or 'exists' (the row should have been the first).
CREATE FUNCTION {schema}.jianmu_begin(
    p_name bytea, p_mark bigint, p_step bigint, p_body bytea, p_token bigint, p_only_first boolean,
    OUT outcome text, OUT p_thread bigint, OUT p_number bigint
) LANGUAGE plpgsql AS $$
DECLARE
    known  {schema}.jianmu_threads;
    newest bigint;
BEGIN
    LOOP
        INSERT INTO {schema}.jianmu_threads (name) VALUES (p_name) ON CONFLICT (name) DO NOTHING;
        SELECT * INTO known FROM {schema}.jianmu_threads WHERE name = p_name FOR NO KEY UPDATE;
        EXIT WHEN FOUND;  -- else it was deleted meanwhile
    END LOOP;
    SELECT max(number) INTO newest FROM {schema}.jianmu_checkpoints WHERE thread = known.number;
    IF p_token IS NOT NULL AND known.token IS DISTINCT FROM p_token THEN
        outcome := 'stale';
    ELSIF p_token IS NULL AND known.token IS NOT NULL AND known.expires_at > clock_timestamp() THEN
        outcome := 'locked';
    ELSIF p_only_first AND newest IS NOT NULL THEN
        outcome := 'exists';
    ELSE
        IF p_token IS NULL AND known.token IS NOT NULL THEN
            -- The lease is over. Without it its holder, should he come back, is refused.
            UPDATE {schema}.jianmu_threads
            SET token = NULL, holder = NULL, expires_at = NULL
            WHERE number = known.number;
        END IF;
        outcome := 'stored';
        p_thread := known.number;
        p_number := coalesce(newest, 0) + 1;
        INSERT INTO {schema}.jianmu_checkpoints (thread, number, mark, step, whole, body)
        VALUES (p_thread, p_number, p_mark, p_step, true, p_body);
    END IF;
END
$$;
