-- name: start_due
-- Queue scheduled jobs whose time has come. Their messages are in Redis with this time, or in the outbox.
WITH due AS (
    DELETE FROM scheduled_starts
    WHERE job_id = ANY (
        ARRAY (
            SELECT job_id FROM scheduled_starts
            WHERE starts_at <= now()
            ORDER BY starts_at
            LIMIT $1
            FOR UPDATE SKIP LOCKED
        )
    )
    RETURNING job_id
), started AS (
    UPDATE jobs j
    SET state = 'queued', next_attempt_at = NULL, event_seq = j.event_seq + 1
    FROM due d
    WHERE j.id = d.job_id AND j.state = 'scheduled' AND j.next_attempt_at <= now()
    RETURNING j.id, j.event_seq
), noted AS (
    INSERT INTO job_events (job_id, seq, events)
    SELECT id, event_seq, $2 FROM started
)
SELECT count(*) FROM due;

-- name: expired
-- Live jobs whose time has come.
SELECT id
FROM jobs
WHERE expires_at <= now() AND expires_at IS NOT NULL AND finished_at IS NULL
ORDER BY expires_at
LIMIT $1
FOR UPDATE SKIP LOCKED;

-- name: waiting_users
-- Users, after a given one, whose jobs wait for a limit, one index descent each; not those that are disabled.
WITH RECURSIVE waiting AS (
    (
        SELECT user_id FROM limit_waits
        WHERE admitted_at IS NULL AND user_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000')
        ORDER BY user_id
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT l.user_id FROM limit_waits l
        WHERE l.admitted_at IS NULL AND l.user_id > w.user_id
        ORDER BY l.user_id
        LIMIT 1
    )
    FROM waiting w
    WHERE w.user_id IS NOT NULL
)
SELECT w.user_id, u.tier, u.disabled_at IS NOT NULL AS disabled
FROM waiting w
LEFT JOIN users u ON u.id = w.user_id
WHERE w.user_id IS NOT NULL
LIMIT $2;

-- name: waiting_jobs
-- The first jobs of a user that wait for a limit, in the order of their arrival; `waits` is false if one has ended.
SELECT w.job_id, j.total, coalesce(j.state = 'scheduled' AND waited_for_limit(j), false) AS waits
FROM limit_waits w
LEFT JOIN jobs j ON j.id = w.job_id
WHERE w.user_id = $1 AND w.admitted_at IS NULL
ORDER BY w.job_id
LIMIT $2;

-- name: forget_waits
-- Jobs that do not wait any more.
DELETE FROM limit_waits WHERE user_id = $1 AND job_id = ANY ($2::uuid[]) AND admitted_at IS NULL;

-- name: admit_waiting
-- Start jobs that waited for a limit, or schedule them for the time that they were submitted with.
WITH admitted AS (
    UPDATE jobs j
    SET
        state = CASE WHEN j.not_before > now() THEN 'scheduled' ELSE 'queued' END,
        next_attempt_at = CASE WHEN j.not_before > now() THEN j.not_before END,
        queued_at = greatest(now(), j.not_before),
        event_seq = j.event_seq + 1
    WHERE j.id = ANY ($2::uuid[]) AND j.state = 'scheduled' AND waited_for_limit(j)
    RETURNING
        j.id, j.user_id, j.generation, j.stage, j.attempt, j.class, j.lane, j.batch, j.next_attempt_at, j.event_seq
), counted AS (
    UPDATE limit_waits w
    SET admitted_at = now()
    FROM admitted a
    WHERE w.user_id = $1 AND w.job_id = a.id
), starting_later AS (
    INSERT INTO scheduled_starts (job_id, starts_at)
    SELECT id, next_attempt_at FROM admitted WHERE next_attempt_at IS NOT NULL
), queued AS (
    INSERT INTO outbox (topic, job_id, user_id, generation, stage, attempt, class, lane, batch, not_before)
    SELECT
        CASE WHEN next_attempt_at IS NULL THEN 'jobs' ELSE 'jobs:retry' END,
        id, user_id, generation, stage, attempt, class, lane, batch, next_attempt_at
    FROM admitted
    ORDER BY id
), noted AS (
    INSERT INTO job_events (job_id, seq, events)
    SELECT
        id, event_seq,
        CASE
            WHEN next_attempt_at IS NULL THEN $3::json
            ELSE json_build_array(
                json_build_object('type', 'JOB_SCHEDULED', 'data', json_build_object('not_before', next_attempt_at))
            )
        END
    FROM admitted
)
SELECT id FROM admitted;

-- name: forget_admitted
-- Admissions that no longer count for the hour of their user.
DELETE FROM limit_waits
WHERE (user_id, job_id) IN (
    SELECT user_id, job_id FROM limit_waits
    WHERE admitted_at < now() - interval '1 hour' AND admitted_at IS NOT NULL
    ORDER BY admitted_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
);
