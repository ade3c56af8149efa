-- name: live_page
-- Live jobs, without those of disabled users, class by class in the order in which they wait, after a given place in it; unless all are wanted, without
-- those whose message may still be in the outbox.
SELECT
    id, user_id, generation, stage, attempt, class, lane, front, worker IS NOT NULL AS claimed, queued_at,
    extract(EPOCH FROM next_attempt_at)::double precision AS retry_at
FROM jobs
WHERE
    finished_at IS NULL
    AND user_id NOT IN (SELECT id FROM users WHERE disabled_at IS NOT NULL)
    AND NOT (state = 'scheduled' AND next_attempt_at IS NULL) -- it waits for a limit
    AND (class, queued_at, id) > (
        coalesce($1::text, ''),
        coalesce($2::timestamptz, '-infinity'),
        coalesce($3::uuid, '00000000-0000-0000-0000-000000000000')
    )
    AND (
        $5
        OR next_attempt_at IS NOT NULL
        OR queued_at < coalesce((SELECT created_at FROM outbox ORDER BY id LIMIT 1), 'infinity')
    )
ORDER BY class, queued_at, id
LIMIT $4;

-- name: republish
-- Queue again the messages of jobs that are still live under the same generation, in the order in which they waited.
WITH lost AS (
    SELECT
        j.id, j.user_id, j.generation, j.stage, j.attempt, j.class, j.lane, j.front, j.batch, j.next_attempt_at,
        j.queued_at
    FROM unnest($1::uuid[], $2::integer[]) AS m (id, generation)
    JOIN jobs j ON j.id = m.id AND j.generation = m.generation
    WHERE j.state IN ('scheduled', 'queued', 'processing', 'retrying')
), queued AS (
    INSERT INTO outbox (topic, job_id, user_id, generation, stage, attempt, class, lane, front, batch, not_before)
    SELECT
        CASE WHEN next_attempt_at IS NULL THEN 'jobs' ELSE 'jobs:retry' END,
        id, user_id, generation, stage, attempt, class, lane, front, batch, next_attempt_at
    FROM lost
    ORDER BY queued_at, id
    RETURNING id
)
SELECT count(*) FROM queued;

-- name: oldest
-- For how long the first job of each of these classes that waits for its turn has waited; before it there are at most
-- those that workers have, and retries.
SELECT chosen.class, extract(EPOCH FROM now() - head.queued_at)::double precision AS oldest_s
FROM unnest($1::text[]) AS chosen (class)
CROSS JOIN LATERAL (
    SELECT j.queued_at
    FROM jobs j
    WHERE j.finished_at IS NULL AND j.class = chosen.class AND j.state = 'queued' AND j.worker IS NULL AND j.next_attempt_at IS NULL
    ORDER BY j.queued_at
    LIMIT 1
) AS head;

-- name: dead_index
-- Dead letters in the order of their jobs, after a given one.
SELECT d.job_id, j.generation
FROM dead_letters d
JOIN jobs j ON j.id = d.job_id
WHERE d.job_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000')
ORDER BY d.job_id
LIMIT $2;

-- name: republish_dead
-- Mirror the dead letters of these jobs again, oldest first.
WITH queued AS (
    INSERT INTO outbox (topic, job_id, user_id, generation, stage, attempt, class, lane)
    SELECT 'jobs:dead', d.job_id, j.user_id, j.generation, d.stage, d.attempt, j.class, j.lane
    FROM dead_letters d
    JOIN jobs j ON j.id = d.job_id
    WHERE d.job_id = ANY ($1::uuid[])
    ORDER BY d.died_at, d.job_id
    RETURNING id
)
SELECT count(*) FROM queued;

-- name: promote
-- Raise the class of jobs that have waited too long for their turn; the message keeps its generation and is moved.
-- One that was to be tried again waits since the moment when that was due.
WITH waiting AS (
    SELECT id
    FROM jobs
    WHERE
        finished_at IS NULL AND state IN ('queued', 'retrying') AND worker IS NULL AND class = $1
        AND queued_at < now() - $3 * interval '1 second'
    ORDER BY queued_at
    LIMIT $4
    FOR UPDATE SKIP LOCKED
), promoted AS (
    UPDATE jobs j
    SET class = $2, promoted_at = now(), event_seq = j.event_seq + 1
    FROM waiting w
    WHERE j.id = w.id
    RETURNING
        j.id, j.user_id, j.generation, j.stage, j.attempt, j.class, j.lane, j.front, j.batch, j.event_seq
), moved AS (
    INSERT INTO outbox (job_id, user_id, generation, stage, attempt, class, lane, front, batch)
    SELECT id, user_id, generation, stage, attempt, class, lane, front, batch
    FROM promoted
), noted AS (
    INSERT INTO job_events (job_id, seq, events)
    SELECT
        id, event_seq,
        json_build_array(
            json_build_object('type', 'JOB_PROMOTED', 'data', json_build_object('from', $1, 'to', $2))
        )
    FROM promoted
)
SELECT count(*) FROM promoted;
