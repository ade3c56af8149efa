-- Moves the submission and the end of a job into the past. Its id follows, because it contains the time.
WITH aged AS (
    SELECT
        id,
        CASE
            WHEN finished_at IS NULL AND idempotency_key IS NULL THEN id
            ELSE (
                lpad(to_hex((extract(EPOCH FROM created_at - $2::interval) * 1000)::bigint), 12, '0')
                || substr(replace(id::text, '-', ''), 13)
            )::uuid
        END AS older
    FROM jobs
    WHERE id = $1
), events AS (
    UPDATE job_events v SET job_id = a.older, at = v.at - $2::interval FROM aged a WHERE v.job_id = a.id
), executions AS (
    UPDATE executions e SET job_id = a.older FROM aged a WHERE e.job_id = a.id
), aged_dead_letters AS (
    UPDATE dead_letters d SET job_id = a.older FROM aged a WHERE d.job_id = a.id
)
UPDATE jobs j
SET
    id = a.older,
    created_at = j.created_at - $2::interval,
    queued_at = j.queued_at - $2::interval,
    finished_at = j.finished_at - $2::interval
FROM aged a
WHERE j.id = a.id
