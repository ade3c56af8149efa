-- name: request_router_cancel
-- Request that the routers cancel the job; the process that wrote it tries first.
INSERT INTO router_cancels (job_id, next_try_at)
VALUES ($1, now() + $2 * interval '1 second');

-- name: take
-- Cancels whose next try is due. The delay to the next try grows; a cancel stays here until it is settled.
WITH due AS (
    SELECT job_id
    FROM router_cancels
    WHERE next_try_at <= now()
    ORDER BY next_try_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
)
UPDATE router_cancels c
SET next_try_at = now() + greatest(now() - c.created_at, interval '1 second')
FROM due d
JOIN jobs j ON j.id = d.job_id
WHERE c.job_id = d.job_id
RETURNING j.id, j.fence, j.stage, j.spec, extract(EPOCH FROM now() - c.created_at)::double precision AS age_s;

-- name: ended_ordinals
-- The executions of a stage that had ended before the cancel.
SELECT ordinal
FROM executions
WHERE job_id = $1 AND stage = $2 AND state IN ('completed', 'failed');

-- name: settle
-- The routers have confirmed; of concurrent confirmations one returns the row.
DELETE FROM router_cancels WHERE job_id = $1 RETURNING job_id;
