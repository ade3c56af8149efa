-- name: job
-- One job with all columns.
SELECT
    id, user_id, kind, name, spec, context, state, tier, class, original_class, lane, front, stage, stages,
    attempt, generation, fence, deliveries, worker, event_seq, total, completed, failed, cancelled, failure,
    price_paid, created_at, queued_at, started_at, finished_at, next_attempt_at, promoted_at,
    coalesce(next_attempt_at > now(), false) AS deferred,
    (SELECT u.disabled_at FROM users u WHERE u.id = user_id) IS NOT NULL AS held
FROM jobs
WHERE id = $1;

-- name: executions
-- What is recorded of a job's executions, from one stage and ordinal to another; outputs and responses only with $6.
SELECT
    stage, ordinal, item, model, region, state, attempt, retries, actual_region, backend,
    CASE WHEN $6 THEN output END AS output, CASE WHEN $6 THEN response END AS response, failure,
    started_at, finished_at, queued_s, load_s, run_s
FROM executions
WHERE job_id = $1 AND (stage, ordinal) >= ($2::smallint, $3::integer) AND (stage, ordinal) <= ($4::smallint, $5::integer)
ORDER BY stage, ordinal;

-- name: ended_executions
-- The ordinals of a stage's executions that have ended.
SELECT ordinal
FROM executions
WHERE job_id = $1 AND stage = $2 AND state IN ('completed', 'failed', 'cancelled');

-- name: running_executions
-- How many executions of a job run.
SELECT count(*) FROM executions WHERE job_id = $1 AND state = 'running';

-- name: execution
-- What is recorded of one execution.
SELECT
    stage, ordinal, item, model, region, state, attempt, retries, actual_region, backend, output, response, failure,
    started_at, finished_at, queued_s, load_s, run_s
FROM executions
WHERE job_id = $1 AND stage = $2 AND ordinal = $3;

-- name: attempts
-- The earlier attempts of one execution.
SELECT attempt, state, actual_region, backend, failure, started_at, finished_at, queued_s, load_s, run_s
FROM attempts
WHERE job_id = $1 AND stage = $2 AND ordinal = $3
ORDER BY attempt;

-- name: page
-- A user's jobs, newest first, after a given one. Live and ended jobs have an index each.
-- Without a given one, after the greatest possible id: `OR` would prevent the index scan from starting at the page.
SELECT
    id, user_id, kind, name, state, tier, class, stage, stages, attempt, total, completed, failed, cancelled,
    failure, created_at, started_at, finished_at
FROM (
    (
        SELECT * FROM jobs
        WHERE
            user_id = $1 AND finished_at IS NULL
            AND id < coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
            AND ($3::text IS NULL OR kind = $3)
        ORDER BY id DESC
        LIMIT $4
    )
    UNION ALL
    (
        SELECT * FROM jobs
        WHERE
            user_id = $1 AND finished_at IS NOT NULL
            AND id < coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
            AND ($3::text IS NULL OR kind = $3)
        ORDER BY id DESC
        LIMIT $4
    )
) AS either
ORDER BY id DESC
LIMIT $4;

-- name: page_in_states
-- The same for jobs in given states, in one statement, so that a job that changes its state is listed once.
-- Live, failed or cancelled, and completed jobs have an index each, which is read only if its states are requested.
SELECT
    id, user_id, kind, name, state, tier, class, stage, stages, attempt, total, completed, failed, cancelled,
    failure, created_at, started_at, finished_at
FROM (
    (
        SELECT * FROM jobs
        WHERE
            $3::text[] && ARRAY['queued', 'processing', 'retrying']
            AND user_id = $1 AND finished_at IS NULL
            AND id < coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
            AND state = ANY ($3)
            AND ($4::text IS NULL OR kind = $4)
        ORDER BY id DESC
        LIMIT $5
    )
    UNION ALL
    (
        SELECT * FROM jobs
        WHERE
            $3 && ARRAY['partial', 'failed', 'cancelled']
            AND user_id = $1 AND finished_at IS NOT NULL AND failed + cancelled > 0
            AND id < coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
            AND state = ANY ($3) AND state <> 'completed'
            AND ($4::text IS NULL OR kind = $4)
        ORDER BY id DESC
        LIMIT $5
    )
    UNION ALL
    (
        SELECT * FROM jobs
        WHERE
            $3 && ARRAY['completed']
            AND user_id = $1 AND finished_at IS NOT NULL
            AND id < coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
            AND state = 'completed'
            AND ($4::text IS NULL OR kind = $4)
        ORDER BY id DESC
        LIMIT $5
    )
) AS any_of_them
ORDER BY id DESC
LIMIT $5;

-- name: page_of_all
-- All users' jobs, newest first, after a given one.
SELECT
    id, user_id, kind, name, state, tier, class, stage, stages, attempt, total, completed, failed, cancelled,
    failure, created_at, started_at, finished_at
FROM jobs
WHERE
    ($1::uuid IS NULL OR id < $1)
    AND ($2::text[] IS NULL OR state = ANY ($2))
    AND ($3::text IS NULL OR kind = $3)
ORDER BY id DESC
LIMIT $4;

-- name: events
-- Rows of events that hold numbers above a given one; seq is the number of a row's last event.
-- The first event, the submission, is the job's own row.
SELECT
    1 AS seq, created_at AS at,
    json_build_array(
        json_build_object(
            'type', 'JOB_QUEUED',
            'data', json_build_object('tier', tier, 'class', original_class, 'executions', total)
        )
    ) AS events
FROM jobs
WHERE id = $1 AND $2 < 1
UNION ALL
(
    SELECT seq, at, events
    FROM job_events
    WHERE job_id = $1 AND seq > $2
    ORDER BY seq
    LIMIT $3
)
ORDER BY seq
LIMIT $3;

-- name: counts
-- Live jobs by state and class, and the age of the one that has waited longest.
SELECT
    state, class, count(*) AS jobs,
    extract(EPOCH FROM now() - min(queued_at))::double precision AS oldest_s
FROM jobs
WHERE finished_at IS NULL
GROUP BY state, class;

-- name: live_jobs
-- The public columns of those of these jobs that are live.
SELECT
    id, user_id, name, state, tier, front, total, completed + failed + cancelled AS ended,
    coalesce(
        spec ->> 'model', spec #>> '{targets,0,0}', spec -> 'steps' -> stage::integer ->> 'model', ''
    ) AS model,
    CASE WHEN kind = 'generation' THEN (spec #>> '{input,duration}')::double precision END AS duration_s
FROM jobs
WHERE id = ANY ($1::uuid[]) AND state IN ('queued', 'processing', 'retrying');

-- name: version
-- The version that the database was migrated to.
SELECT version_num FROM alembic_version;
