-- name: record_single
-- The hot path: jobs of one execution that ran and completed at the first try, whole in one statement.
-- Their three events follow from these rows, so only their number is kept. Where they ran comes once for all
-- that ran there: `shared` is its place in the last four arrays, 1 if it is null.
-- By a list of keys, as in a claim, which is read once; all of them have the same fence.
-- Says which of the $1 jobs it applied to, or nothing at all when it did to all of them.
WITH given AS MATERIALIZED (
    SELECT $3::text::uuid[] AS ids
), done AS (
    UPDATE jobs j
    SET
        state = 'completed',
        completed = 1,
        finished_at = now(),
        worker = NULL,
        event_seq = j.event_seq + 3
    WHERE j.id = ANY ((SELECT ids FROM given)::uuid[]) AND j.lease = $4 AND j.state = 'processing'
    RETURNING j.id
), kept AS (
    INSERT INTO executions (
        job_id, stage, ordinal, attempt, state, item, model, region, actual_region, backend, output,
        started_at, finished_at, queued_s, load_s, run_s
    )
    SELECT
        id, 0, 0, 1, 'completed', $2, model, region, actual_region, backend, output::json,
        to_timestamp(run_from), to_timestamp(run_to), queued_s, load_s, run_s
    FROM unnest(
        (SELECT ids FROM given), $5::text::integer[], string_to_array($6, E'\n', ''),
        $7::text::double precision[], $8::text::double precision[], $9::text::real[], $10::text::real[],
        $11::text::real[]
    ) AS r (id, shared, output, run_from, run_to, queued_s, load_s, run_s)
    JOIN unnest($12::text[], $13::text[], $14::text[], $15::text[]) WITH ORDINALITY
        AS s (model, region, actual_region, backend, place) ON s.place = coalesce(r.shared, 1)
    WHERE (SELECT count(*) FROM done) = $1::integer OR id IN (SELECT id FROM done)
)
SELECT CASE WHEN count(*) < $1 THEN coalesce(array_agg(id), '{}') END AS applied FROM done;

-- name: record_jobs
-- What verdicts and progress change in the jobs themselves, with the messages, letters and events they cause.
WITH changed AS (
    UPDATE jobs j
    SET
        state = r.state,
        stage = j.stage + r.advance,
        attempt = r.attempt,
        ticket = j.ticket + r.requeue::integer,
        deliveries = CASE -- those in a row without anything coming to its end
            WHEN r.requeue OR r.returned AND r.progressed THEN 0
            WHEN r.returned THEN greatest(j.deliveries - 1, 0)
            WHEN r.progressed AND r.state = 'processing' THEN least(j.deliveries, 1)
            ELSE j.deliveries
        END,
        context = coalesce(r.context, j.context),
        failure = CASE WHEN r.state = 'processing' THEN j.failure ELSE r.failure END,
        worker = CASE WHEN r.state = 'processing' THEN j.worker END,
        postponed = CASE WHEN r.state = 'processing' OR r.returned THEN j.postponed ELSE r.postponed END,
        queued_at = CASE
            WHEN r.requeue THEN now() + coalesce(r.delay_s, 0) * interval '1 second'
            ELSE j.queued_at
        END,
        next_attempt_at = now() + r.delay_s * interval '1 second',
        finished_at = CASE WHEN r.state IN ('completed', 'partial', 'failed', 'cancelled') THEN now() END,
        event_seq = j.event_seq + r.event_count
    FROM unnest(
        $1::uuid[], $2::bigint[], $3::text[], $4::smallint[], $5::smallint[], $6::boolean[], $7::boolean[],
        $8::double precision[], $9::json[], $10::json[], $11::text[], $12::integer[], $13::json[], $14::boolean[],
        $15::json[]
    ) AS r (
        id, fence, state, advance, attempt, requeue, returned, delay_s, context, failure, reason,
        event_count, events, progressed, postponed
    )
    WHERE j.id = r.id AND j.lease = r.fence AND j.state = 'processing'
    RETURNING
        j.id, j.user_id, j.state, j.ticket, j.stage, j.attempt, j.class, j.lane, j.front, j.batch,
        j.next_attempt_at, j.failure, j.event_seq, r.requeue, r.reason, r.event_count, r.events
), queued AS (
    INSERT INTO outbox (topic, job_id, user_id, ticket, stage, attempt, class, lane, front, batch, not_before)
    SELECT
        CASE WHEN next_attempt_at IS NULL THEN 'jobs' ELSE 'jobs:retry' END,
        id, user_id, ticket, stage, attempt, class, lane, front, batch, next_attempt_at
    FROM changed
    WHERE requeue
), mirrored AS (
    INSERT INTO outbox (topic, job_id, user_id, ticket, stage, attempt, class, lane, reason)
    SELECT 'jobs:dead', id, user_id, ticket, stage, attempt, class, lane, reason
    FROM changed
    WHERE reason IS NOT NULL
), letters AS (
    INSERT INTO dead_letters (job_id, stage, attempt, reason, failure)
    SELECT id, stage, attempt, reason, failure
    FROM changed
    WHERE reason IS NOT NULL
    ON CONFLICT (job_id) DO UPDATE
    SET
        died_at = EXCLUDED.died_at,
        stage = EXCLUDED.stage,
        attempt = EXCLUDED.attempt,
        reason = EXCLUDED.reason,
        failure = EXCLUDED.failure
), told AS (
    INSERT INTO job_events (job_id, seq, events)
    SELECT id, event_seq, events
    FROM changed
    WHERE event_count > 0
)
SELECT id FROM changed;

-- name: record_executions
-- The newest state of executions. A completed one stays as it is, whatever comes late.
INSERT INTO executions AS e (
    job_id, stage, ordinal, attempt, state, item, model, region, actual_region, backend, output, failure,
    started_at, finished_at, queued_s, load_s, run_s
)
SELECT
    job_id, stage, ordinal, attempt, state, item, model, region, actual_region, backend, output, failure,
    to_timestamp(run_from), to_timestamp(run_to), queued_s, load_s, run_s
FROM unnest(
    $1::uuid[], $2::smallint[], $3::integer[], $4::smallint[], $5::text[], $6::text[], $7::text[],
    $8::text[], $9::text[], $10::text[], $11::json[], $12::json[], $13::double precision[],
    $14::double precision[], $15::real[], $16::real[], $17::real[]
) AS r (
    job_id, stage, ordinal, attempt, state, item, model, region, actual_region, backend, output, failure,
    run_from, run_to, queued_s, load_s, run_s
)
ON CONFLICT (job_id, stage, item, model, region) DO UPDATE
SET
    attempt = EXCLUDED.attempt,
    state = EXCLUDED.state,
    actual_region = EXCLUDED.actual_region,
    backend = EXCLUDED.backend,
    output = EXCLUDED.output,
    failure = EXCLUDED.failure,
    started_at = coalesce(EXCLUDED.started_at, e.started_at), -- kept where it waits again: it was told
    finished_at = EXCLUDED.finished_at,
    queued_s = EXCLUDED.queued_s,
    load_s = EXCLUDED.load_s,
    run_s = EXCLUDED.run_s
WHERE e.state <> 'completed' AND EXCLUDED.attempt >= e.attempt;

-- name: try_again
-- Keep the failed attempts of the current stages as history and make their executions pending; when all are
-- meant, those too that were cancelled at the router.
WITH again AS (
    SELECT e.*
    FROM unnest($1::uuid[]) AS chosen (id)
    JOIN jobs j ON j.id = chosen.id
    JOIN executions e ON e.job_id = j.id AND e.stage = j.stage
    WHERE e.state = 'failed' AND ($2 OR (e.failure ->> 'retryable')::boolean) OR e.state = 'cancelled' AND $2
), kept AS (
    INSERT INTO attempts (
        job_id, stage, ordinal, attempt, state, actual_region, backend, failure, started_at, finished_at,
        queued_s, load_s, run_s
    )
    SELECT
        job_id, stage, ordinal, attempt, state, actual_region, backend, failure, started_at, finished_at,
        queued_s, load_s, run_s
    FROM again
    ON CONFLICT DO NOTHING
)
UPDATE executions e
SET
    state = 'pending',
    attempt = e.attempt + 1,
    actual_region = NULL,
    backend = NULL,
    failure = NULL,
    started_at = NULL,
    finished_at = NULL,
    queued_s = NULL,
    load_s = NULL,
    run_s = NULL
FROM again a
WHERE
    e.job_id = a.job_id AND e.stage = a.stage AND e.item = a.item AND e.model = a.model
    AND e.region = a.region;

-- name: recount
-- Bring the jobs' counts in line with their executions; what a finished job never ran counts as cancelled.
UPDATE jobs j
SET
    completed = c.completed,
    failed = c.failed,
    cancelled = CASE
        WHEN j.finished_at IS NULL THEN c.cancelled
        ELSE j.total - c.completed - c.failed
    END
FROM (
    SELECT
        chosen.id,
        count(*) FILTER (WHERE e.state = 'completed') AS completed,
        count(*) FILTER (WHERE e.state = 'failed') AS failed,
        count(*) FILTER (WHERE e.state = 'cancelled') AS cancelled
    FROM unnest($1::uuid[]) AS chosen (id)
    LEFT JOIN executions e ON e.job_id = chosen.id
    GROUP BY chosen.id
) AS c
WHERE j.id = c.id;
