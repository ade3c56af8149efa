-- name: add
-- A new operation on jobs that were submitted until now.
INSERT INTO operations (id, user_id, action, selection, below)
VALUES ($1, $2, $3, $4, id_at(now() + interval '1 millisecond'))
RETURNING id, user_id, action, selection, matched, changed, created_at, finished_at;

-- name: operation
-- One operation, of one user or of any.
SELECT id, user_id, action, selection, matched, changed, created_at, finished_at
FROM operations
WHERE id = $1 AND ($2::uuid IS NULL OR user_id = $2);

-- name: take
-- The open operation that has waited longest and that no other process works on; locked until the commit.
SELECT id, user_id, action, selection, below, matched, changed, created_at, finished_at
FROM operations
WHERE finished_at IS NULL
ORDER BY updated_at
LIMIT 1
FOR UPDATE SKIP LOCKED;

-- name: progress
-- Store the progress, with the transaction that made it.
UPDATE operations
SET
    below = $2,
    matched = matched + $3,
    changed = changed + $4,
    updated_at = clock_timestamp(),
    finished_at = CASE WHEN $5 THEN now() END
WHERE id = $1;

-- name: postpone
-- Work on others first, after an error.
UPDATE operations SET updated_at = clock_timestamp() WHERE id = $1;

-- name: forget
-- Remove operations that finished long ago.
DELETE FROM operations
WHERE id IN (
    SELECT id FROM operations
    WHERE finished_at < now() - $1 * interval '1 second' AND finished_at IS NOT NULL
    ORDER BY finished_at
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
);

-- name: given_jobs
-- Those of these jobs that exist, newest first, of one user or of any.
SELECT id
FROM jobs
WHERE id = ANY ($1::uuid[]) AND ($2::uuid IS NULL OR user_id = $2)
ORDER BY id DESC;

-- name: lock_resumable
-- Lock those of these jobs that can be resumed; with $2 all that failed, except those that may kill their workers.
SELECT id
FROM jobs
WHERE
    id = ANY ($1::uuid[])
    AND (
        state = 'expired'
        OR state IN ('failed', 'partial')
        AND CASE WHEN $2 THEN failure ->> 'code' IS DISTINCT FROM 'poison' ELSE (failure ->> 'retryable')::boolean END
    )
ORDER BY id
FOR UPDATE;

-- name: delete_jobs
-- Delete those of these jobs that have ended, with all that belongs to them.
SELECT delete_jobs($1::uuid[]);

-- name: job_state
-- The state of a job.
SELECT state FROM jobs WHERE id = $1;

-- name: mark_deleted
-- Hide a user, whose keys stop working and whose name is free again.
UPDATE users
SET disabled_at = coalesce(disabled_at, now()), deleted_at = now(), name = 'deleted ' || id::text
WHERE id = $1 AND deleted_at IS NULL
RETURNING id;

-- name: may_have_jobs
-- Whether a deleted user has any job, or may get one: other processes know its keys for some seconds.
SELECT EXISTS (SELECT FROM jobs WHERE user_id = $1 AND finished_at IS NULL)
    OR EXISTS (SELECT FROM jobs WHERE user_id = $1 AND finished_at IS NOT NULL)
    OR EXISTS (SELECT FROM users WHERE id = $1 AND deleted_at > now() - interval '15 seconds');

-- name: erase_user
-- Delete what is left of a user without jobs, except its anonymous ledger.
SELECT erase_user($1);
