-- name: forget_events
-- Remove old events of finished jobs; ids are ordered by time, so old jobs come first in the index.
DELETE FROM job_events
WHERE (job_id, seq) IN (
    SELECT v.job_id, v.seq
    FROM job_events v
    JOIN jobs j ON j.id = v.job_id
    WHERE
        v.job_id < id_at(now() - $1 * interval '1 second')
        AND v.at < now() - $1 * interval '1 second'
        AND j.finished_at < now() - $1 * interval '1 second'
    LIMIT $2
);

-- name: forget_keys
-- Free old idempotency keys.
UPDATE jobs
SET idempotency_key = NULL, request_hash = NULL
WHERE id IN (
    SELECT id
    FROM jobs
    WHERE idempotency_key IS NOT NULL AND id < id_at(now() - $1 * interval '1 second')
    LIMIT $2
    FOR UPDATE SKIP LOCKED
);

-- name: forget_jobs
-- Remove jobs that finished long ago, with all that belongs to them.
WITH old AS (
    SELECT id
    FROM jobs
    WHERE
        id < id_at(now() - $1 * interval '1 second')
        AND finished_at < now() - $1 * interval '1 second'
    ORDER BY id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), no_executions AS (
    DELETE FROM executions e USING old o WHERE e.job_id = o.id
), no_attempts AS (
    DELETE FROM attempts a USING old o WHERE a.job_id = o.id
), no_events AS (
    DELETE FROM job_events v USING old o WHERE v.job_id = o.id
), no_letters AS (
    DELETE FROM dead_letters d USING old o WHERE d.job_id = o.id
), no_cancels AS (
    DELETE FROM router_cancels c USING old o WHERE c.job_id = o.id
)
DELETE FROM jobs j USING old o WHERE j.id = o.id;
