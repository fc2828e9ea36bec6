-- A thread, with the lease on it while somebody holds one.
-- AUTOINCREMENT: the number of a deleted thread is never given to another one.
CREATE TABLE jianmu_threads (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    name       BLOB NOT NULL UNIQUE,        -- the thread id as UTF-8
    first      INTEGER NOT NULL DEFAULT 0,  -- rows below this id were pruned
    token      INTEGER,                     -- the lease's fencing token; NULL: nobody holds the thread
    holder     TEXT,
    expires_at REAL                         -- seconds since the epoch
);

-- The last fencing token that was given to any thread.
CREATE TABLE jianmu_fence (token INTEGER NOT NULL);
INSERT INTO jianmu_fence VALUES (0);

-- One save. The id is the thread's number in the upper bits and the save's own number in the lower 32, without gaps:
-- one B-tree holds a thread's rows side by side and in order, and a save touches one page.
CREATE TABLE jianmu_checkpoints (
    id       INTEGER PRIMARY KEY,
    step     INTEGER NOT NULL,
    whole    INTEGER NOT NULL,  -- 1: the body is an envelope, a keyframe; 0: it is a patch on the row before
    saved_at REAL NOT NULL,     -- seconds since the epoch
    body     BLOB NOT NULL      -- JSON
);
