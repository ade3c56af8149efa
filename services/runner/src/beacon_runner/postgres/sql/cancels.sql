-- name: request_router_cancel
-- Request that the routers cancel the job; the process that wrote it tries first. It replaces one that they have not
-- confirmed.
INSERT INTO router_cancels (job_id, fence, next_try_at)
VALUES ($1, cancel_fence($1, $2), now() + $3 * interval '1 second')
ON CONFLICT (job_id, fence) DO UPDATE SET created_at = EXCLUDED.created_at, next_try_at = EXCLUDED.next_try_at
RETURNING fence;

-- name: take
-- Cancels whose next try is due. The delay to the next try grows; a cancel stays here until it is settled.
WITH due AS (
    SELECT job_id, fence
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
WHERE c.job_id = d.job_id AND c.fence = d.fence
RETURNING
    j.id, c.fence, c.resumed, j.stage, j.spec, extract(EPOCH FROM now() - c.created_at)::double precision AS age_s;

-- name: executions_at_cancel
-- The executions of a stage that had ended before the cancel, that had started, and those with a run at their backend.
SELECT ordinal, state IN ('completed', 'failed') AS ended, started_at IS NOT NULL AS started, remote
FROM executions
WHERE
    job_id = $1 AND stage = $2
    AND (state IN ('completed', 'failed') OR started_at IS NOT NULL OR remote IS NOT NULL);

-- name: settle
-- The routers have confirmed, and the runs at backends are over; of concurrent confirmations one returns the row.
WITH settled AS (
    DELETE FROM router_cancels WHERE job_id = $1 AND fence = $2 RETURNING job_id, resumed
), stopped AS (
    UPDATE executions e
    SET remote = NULL
    FROM settled s
    WHERE e.job_id = s.job_id AND NOT s.resumed AND e.remote IS NOT NULL
)
SELECT resumed FROM settled;

-- name: record_runs
-- Where and for how long the executions of a stopped job ran, unless it goes on; a start that was not recorded is added.
-- Also as usage, whatever the job does since.
WITH run AS (
    SELECT *
    FROM json_to_recordset($2::json) AS r (
        stage smallint, ordinal integer, item text, model text, region text, actual_region text, backend text,
        queued_s real, load_s real, run_s real
    )
), ran AS (
    INSERT INTO executions AS e (
        job_id, stage, ordinal, attempt, state, item, model, region, actual_region, backend, started_at, finished_at,
        queued_s, load_s, run_s
    )
    SELECT
        j.id, r.stage, r.ordinal, 1, 'cancelled', r.item, r.model, r.region, r.actual_region, r.backend,
        j.finished_at - (r.queued_s + r.load_s + r.run_s) * interval '1 second', j.finished_at,
        r.queued_s, r.load_s, r.run_s
    FROM jobs j
    CROSS JOIN run r
    WHERE j.id = $1 AND j.state IN ('cancelled', 'expired')
    ON CONFLICT (job_id, stage, item, model, region) DO UPDATE
    SET
        actual_region = EXCLUDED.actual_region,
        backend = EXCLUDED.backend,
        queued_s = EXCLUDED.queued_s,
        load_s = EXCLUDED.load_s,
        run_s = EXCLUDED.run_s
    WHERE e.state = 'cancelled'
)
INSERT INTO usage_records (user_id, key_id, model, region, queued_s, load_s, run_s, tags)
SELECT
    j.user_id, j.key_id, r.model, coalesce(r.actual_region, r.region), r.queued_s, r.load_s, r.run_s, tags_of(j.labels)
FROM run r
JOIN jobs j ON j.id = $1
WHERE r.backend IS NOT NULL;
