-- name: lock_version
-- Lock the job until the transaction ends if it is in the given version; no row otherwise.
SELECT id
FROM jobs
WHERE id = $1 AND state = $2 AND generation = $3 AND fence = $4 AND front = $5
FOR UPDATE;

-- name: cancel
-- End a live job. The new fence makes its worker's writes fail.
UPDATE jobs
SET
    state = 'cancelled',
    fence = fence + 1,
    worker = NULL,
    next_attempt_at = NULL,
    finished_at = now(),
    cancelled = total - completed - failed,
    event_seq = event_seq + 1
WHERE id = $1 AND finished_at IS NULL
RETURNING id, spec, stage, fence, event_seq;

-- name: cancel_executions
-- Executions that had not ended are cancelled with their job.
UPDATE executions
SET state = 'cancelled', finished_at = now(), preview = NULL
WHERE job_id = $1 AND state IN ('pending', 'queued', 'running');

-- name: add_event
-- Store one event under its number.
INSERT INTO job_events (job_id, seq, events)
VALUES ($1, $2, $3);

-- name: add_position_event
-- Store an event about a job's position, unless the job has changed or its last event has the same position.
WITH changed AS (
    UPDATE jobs j
    SET event_seq = j.event_seq + 1
    WHERE
        j.id = $1 AND j.state = $2 AND j.generation = $3
        AND NOT EXISTS (
            SELECT FROM job_events v
            WHERE
                v.job_id = j.id AND v.seq = j.event_seq AND v.events -> -1 ->> 'type' = $4
                AND (v.events -> -1 -> 'data' ->> 'position')::integer = $5
        )
    RETURNING j.id, j.event_seq
)
INSERT INTO job_events (job_id, seq, events)
SELECT id, event_seq, $6
FROM changed
RETURNING seq;

-- name: lock_users_of_waits
-- Lock the users of those of these jobs that expired while they waited for a limit: their waits are added again.
SELECT u.id
FROM users u
WHERE u.id IN (SELECT j.user_id FROM jobs j WHERE j.id = ANY ($1::uuid[]) AND j.state = 'expired' AND waited_for_limit(j))
ORDER BY u.id
FOR NO KEY UPDATE;

-- name: requeue
-- Queue jobs that have ended, or wait for a time, from the stage where they stopped, under a new generation. A time of
-- expiry that has passed no longer counts. Jobs that expired while they waited for a limit of their user wait again.
-- A cancel that the routers have not confirmed concerns runs under earlier fences only.
WITH requeued AS (
    UPDATE jobs j
    SET
        state = CASE WHEN j.state = 'expired' AND waited_for_limit(j) THEN 'scheduled' ELSE 'queued' END,
        generation = j.generation + 1,
        attempt = r.attempt,
        deliveries = 0,
        failure = NULL,
        deferred = NULL,
        queued_at = CASE WHEN j.state = 'expired' AND waited_for_limit(j) THEN j.queued_at ELSE now() END,
        finished_at = NULL,
        next_attempt_at = NULL,
        expires_at = CASE WHEN j.expires_at > now() THEN j.expires_at END,
        event_seq = j.event_seq + 1
    FROM unnest($1::uuid[], $2::smallint[]) AS r (id, attempt)
    WHERE j.id = r.id AND j.state IN ('failed', 'partial', 'retrying', 'expired', 'scheduled')
    RETURNING
        j.id, j.user_id, j.generation, j.stage, j.attempt, j.class, j.lane, j.front, j.event_seq,
        j.state = 'scheduled' AS waits
), queued AS (
    INSERT INTO outbox (job_id, user_id, generation, stage, attempt, class, lane, front)
    SELECT id, user_id, generation, stage, attempt, class, lane, front
    FROM requeued
    WHERE NOT waits
), waiting AS (
    INSERT INTO limit_waits (user_id, job_id)
    SELECT user_id, id FROM requeued WHERE waits
    ON CONFLICT DO NOTHING
), announced AS (
    INSERT INTO job_events (job_id, seq, events)
    SELECT id, event_seq, CASE WHEN waits THEN '[{"type": "JOB_SCHEDULED", "data": {}}]'::json ELSE $3 END
    FROM requeued
), alive AS (
    DELETE FROM dead_letters d USING requeued r WHERE d.job_id = r.id
), outdated AS (
    UPDATE router_cancels c SET resumed = true FROM requeued r WHERE c.job_id = r.id
)
SELECT id FROM requeued;
