-- name: job
-- One job with all columns.
SELECT
    id, user_id, kind, name, labels, scheduled, not_before, expires_at, spec, context, state, tier, class, original_class, lane, front, stage, stages,
    attempt, generation, fence, deliveries, worker, event_seq, total, completed, failed, cancelled, failure,
    price_paid, created_at, queued_at, started_at, finished_at, next_attempt_at, promoted_at, webhook,
    coalesce(next_attempt_at > now(), false) AS deferred,
    (SELECT u.disabled_at FROM users u WHERE u.id = user_id) IS NOT NULL AS held,
    worker IS NOT NULL OR state = 'processing' AS claimed
FROM jobs
WHERE id = $1;

-- name: executions
-- What is recorded of these executions of a job, each found by its key; outputs and responses only with $6, and as long
-- as their stored sizes add up to at most $7 bytes: where they exceed it, but for the first, `beyond` is true.
SELECT
    stage, ordinal, item, model, region, state, attempt, retries, actual_region, backend,
    CASE WHEN $6 AND NOT beyond THEN output END AS output, CASE WHEN $6 AND NOT beyond THEN response END AS response,
    failure, started_at, finished_at, queued_s, load_s, run_s, tokens_in, tokens_out,
    CASE WHEN state = 'running' THEN progress END AS progress, CASE WHEN $6 AND NOT beyond THEN preview END AS preview,
    $6 AND beyond AS beyond
FROM (
    SELECT *, sum(size) OVER places > $7 AND sum(size) OVER places > size AS beyond
    FROM (
        SELECT
            e.*,
            coalesce(pg_column_size(e.output), 0) + coalesce(pg_column_size(e.response), 0)
            + coalesce(pg_column_size(e.preview), 0) AS size
        FROM unnest($2::smallint[], $3::text[], $4::text[], $5::text[]) AS k (stage, item, model, region)
        CROSS JOIN LATERAL (
            SELECT * FROM executions
            WHERE
                job_id = $1 AND stage = k.stage AND item = k.item AND model = k.model AND region = k.region
            OFFSET 0
        ) AS e
    ) AS sized
    WINDOW places AS (ORDER BY stage, ordinal)
) AS added
ORDER BY stage, ordinal;

-- name: ended_executions
-- The ordinals of a stage's executions that have ended.
SELECT ordinal
FROM executions
WHERE job_id = $1 AND stage = $2 AND state IN ('completed', 'failed', 'cancelled');

-- name: sent_executions
-- How many executions of a job wait at routers, how many run, and the sum of the percents that backends report of these.
SELECT
    count(*) FILTER (WHERE state = 'queued') AS queued,
    count(*) FILTER (WHERE state = 'running') AS running,
    coalesce(sum((progress ->> 'percent')::double precision) FILTER (WHERE state = 'running'), 0) AS percent
FROM executions
WHERE job_id = $1 AND state IN ('queued', 'running');

-- name: execution
-- What is recorded of one execution.
SELECT
    stage, ordinal, item, model, region, state, attempt, retries, actual_region, backend, output, response, failure,
    started_at, finished_at, queued_s, load_s, run_s, tokens_in, tokens_out,
    CASE WHEN state = 'running' THEN progress END AS progress, preview
FROM executions
WHERE job_id = $1 AND stage = $2 AND ordinal = $3;

-- name: attempts
-- The earlier attempts of one execution.
SELECT attempt, state, actual_region, backend, failure, started_at, finished_at, queued_s, load_s, run_s
FROM attempts
WHERE job_id = $1 AND stage = $2 AND ordinal = $3
ORDER BY attempt;

-- name: events
-- Rows of events that hold numbers above a given one; seq is the number of a row's last event.
-- The first event, the submission, is the job's own row; the newest progress of an execution is in its row.
SELECT
    1 AS seq, created_at AS at,
    json_build_array(
        json_build_object(
            'type', CASE WHEN scheduled THEN 'JOB_SCHEDULED' ELSE 'JOB_QUEUED' END,
            'data', json_strip_nulls(
                json_build_object(
                    'tier', tier, 'class', original_class, 'executions', total, 'not_before', not_before
                )
            )
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
UNION ALL
(
    SELECT
        progress_seq, progress_at,
        json_build_array(
            json_build_object(
                'type', 'EXECUTION_PROGRESS',
                'data', json_build_object(
                    'stage', stage, 'ordinal', ordinal, 'item', item, 'model', model, 'region', region,
                    'attempt', attempt, 'percent', progress -> 'percent', 'message', progress -> 'message',
                    'preview', preview
                )
            )
        )
    FROM executions
    WHERE job_id = $1 AND progress_seq > $2
    ORDER BY progress_seq
    LIMIT $3
)
ORDER BY seq
LIMIT $3;

-- name: counts
-- Live jobs by state and class, and the age of the one that has waited longest for a worker.
SELECT
    state, class, count(*) AS jobs,
    extract(EPOCH FROM now() - min(queued_at) FILTER (WHERE worker IS NULL))::double precision AS oldest_s
FROM jobs
WHERE finished_at IS NULL
GROUP BY state, class;

-- name: live_jobs
-- The public columns of those of these jobs that are live.
SELECT
    id, user_id, name, state, tier, front, total,
    completed + failed + cancelled + (
        SELECT coalesce(sum((e.progress ->> 'percent')::double precision), 0) / 100
        FROM executions e
        WHERE e.job_id = jobs.id AND e.progress_seq IS NOT NULL AND e.state = 'running'
    ) AS ended,
    coalesce(
        spec ->> 'model', spec #>> '{targets,0,0}', spec -> 'steps' -> stage::integer ->> 'model', ''
    ) AS model,
    CASE WHEN kind = 'generation' THEN (spec #>> '{input,duration}')::double precision END AS duration_s
FROM jobs
WHERE id = ANY ($1::uuid[]) AND state IN ('scheduled', 'queued', 'processing', 'retrying');

-- name: version
-- The version that the database was migrated to.
SELECT version_num FROM alembic_version;
