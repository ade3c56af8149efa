-- name: leave_trace
-- The routers are to be told of this cancel; the process that wrote it may try first.
INSERT INTO router_cancels (job_id, next_try_at)
VALUES ($1, now() + $2 * interval '1 second');

-- name: take
-- Cancels whose next try is due, and the try after that, later each time: whoever dies meanwhile leaves them here.
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
-- Which executions of a stage had come to an end before the cancel.
SELECT ordinal
FROM executions
WHERE job_id = $1 AND stage = $2 AND state IN ('completed', 'failed');

-- name: settle
-- The routers know: of those who say so at the same time one is first.
DELETE FROM router_cancels WHERE job_id = $1 RETURNING job_id;
