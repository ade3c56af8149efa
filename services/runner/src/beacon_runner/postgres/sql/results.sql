-- name: record
-- Apply reports whose fence is current and whose job is claimed, whole or not at all: job states, executions, outbox
-- rows, dead letters, events. $1 has an object per job, $2 the context of each, $7 its events, $3 an object per
-- execution, $4 the output of each, $6 its complete response. Contexts, outputs and responses are separate: as parts of
-- an object they could not contain NUL; events are, because reading an object reads its parts once more. $5 has the ids
-- of the jobs, so that every plan descends the primary key. A completed execution is never changed.
WITH changed AS (
    UPDATE jobs j
    SET
        state = coalesce(r.state, j.state),
        stage = j.stage + coalesce(r.advance, 0),
        attempt = r.attempt,
        generation = j.generation + CASE WHEN r.requeue THEN 1 ELSE 0 END,
        deliveries = CASE -- claims in a row in which nothing started or ended
            WHEN r.requeue OR r.returned AND r.progressed THEN 0
            WHEN r.returned THEN greatest(j.deliveries - 1, 0)
            WHEN r.progressed AND r.ongoing THEN least(j.deliveries, 1)
            ELSE j.deliveries
        END,
        completed = r.completed,
        failed = r.failed,
        cancelled = CASE
            WHEN r.state IN ('completed', 'partial', 'failed', 'cancelled') THEN j.total - r.completed - r.failed
            ELSE r.cancelled
        END,
        context = coalesce(r.context::json, j.context),
        failure = CASE WHEN r.ongoing THEN j.failure ELSE r.failure END,
        worker = CASE WHEN r.ongoing THEN j.worker END,
        deferred = CASE WHEN r.ongoing OR r.returned THEN j.deferred ELSE r.deferred END,
        queued_at = CASE
            WHEN r.requeue THEN now() + coalesce(r.delay_s, 0) * interval '1 second'
            ELSE j.queued_at
        END,
        next_attempt_at = now() + r.delay_s * interval '1 second',
        started_at = coalesce(j.started_at, to_timestamp(r.started_at)),
        finished_at = CASE WHEN r.state IN ('completed', 'partial', 'failed', 'cancelled') THEN now() END,
        event_seq = j.event_seq + r.event_count
    FROM ROWS FROM (
        json_to_recordset($1::json) AS (
            id uuid, fence bigint, state text, advance smallint, attempt smallint, requeue boolean, returned boolean,
            ongoing boolean, progressed boolean, started_at double precision, delay_s double precision,
            completed integer, failed integer, cancelled integer, failure json, reason text, deferred json,
            event_count integer
        ),
        unnest($2::text[], $7::text[])
    ) AS r (
        id, fence, state, advance, attempt, requeue, returned, ongoing, progressed, started_at, delay_s,
        completed, failed, cancelled, failure, reason, deferred, event_count, context, events
    )
    WHERE j.id = r.id AND j.id = ANY ($5::text::uuid[]) AND j.fence = r.fence AND j.worker IS NOT NULL
    RETURNING
        j.id, j.user_id, j.key_id, j.labels, j.generation, j.stage, j.attempt, j.class, j.lane, j.front, j.batch,
        j.next_attempt_at, j.failure, j.event_seq, r.requeue, r.reason, r.events
), kept AS (
    INSERT INTO executions AS e (
        job_id, stage, ordinal, attempt, state, item, model, region, actual_region, backend, output, response,
        failure, started_at, finished_at, queued_s, load_s, run_s, tokens_in, tokens_out, output_bytes
    )
    SELECT
        x.job_id, x.stage, x.ordinal, x.attempt, x.state, x.item, x.model, x.region, x.actual_region, x.backend,
        x.output::json, x.response::json, x.failure, to_timestamp(x.started_at), to_timestamp(x.finished_at), x.queued_s,
        x.load_s, x.run_s, x.tokens_in, x.tokens_out, x.output_bytes
    FROM ROWS FROM (
        json_to_recordset($3::json) AS (
            job_id uuid, stage smallint, ordinal integer, attempt smallint, state text, item text, model text,
            region text, actual_region text, backend text, failure json, started_at double precision,
            finished_at double precision, queued_s real, load_s real, run_s real, tokens_in integer, tokens_out integer,
            output_bytes bigint
        ),
        unnest($4::text[]),
        unnest($6::text[])
    ) AS x (
        job_id, stage, ordinal, attempt, state, item, model, region, actual_region, backend, failure, started_at,
        finished_at, queued_s, load_s, run_s, tokens_in, tokens_out, output_bytes, output, response
    )
    WHERE x.job_id IN (SELECT id FROM changed)
    ON CONFLICT (job_id, stage, item, model, region) DO UPDATE
    SET
        attempt = EXCLUDED.attempt,
        state = EXCLUDED.state,
        actual_region = EXCLUDED.actual_region,
        backend = EXCLUDED.backend,
        output = EXCLUDED.output,
        response = EXCLUDED.response,
        failure = EXCLUDED.failure,
        started_at = CASE
            WHEN EXCLUDED.state NOT IN ('pending', 'queued') THEN coalesce(e.started_at, EXCLUDED.started_at)
        END,
        finished_at = EXCLUDED.finished_at,
        queued_s = EXCLUDED.queued_s,
        load_s = EXCLUDED.load_s,
        run_s = EXCLUDED.run_s,
        tokens_in = EXCLUDED.tokens_in,
        tokens_out = EXCLUDED.tokens_out,
        output_bytes = EXCLUDED.output_bytes,
        remote = CASE WHEN EXCLUDED.state IN ('pending', 'queued', 'running') THEN e.remote END,
        progress = CASE WHEN EXCLUDED.state NOT IN ('pending', 'queued') THEN e.progress END,
        progress_seq = CASE WHEN EXCLUDED.state NOT IN ('pending', 'queued') THEN e.progress_seq END,
        preview = CASE WHEN EXCLUDED.state = 'running' THEN e.preview END
    WHERE e.state <> 'completed' AND EXCLUDED.attempt >= e.attempt
    RETURNING
        e.job_id, e.state, e.model, coalesce(e.actual_region, e.region) AS region, e.backend, e.queued_s, e.load_s,
        e.run_s, e.tokens_in, e.tokens_out, e.output_bytes
), used AS ( -- failed runs are counted, their seconds are not
    INSERT INTO usage_records (
        user_id, key_id, model, region, tags, queued_s, load_s, run_s, tokens_in, tokens_out, output_bytes, runs, failed
    )
    SELECT
        c.user_id, c.key_id, k.model, k.region, CASE WHEN c.labels IS NULL THEN '{}' ELSE tags_of(c.labels) END,
        coalesce(sum(k.queued_s), 0),
        coalesce(sum(k.load_s) FILTER (WHERE k.state <> 'failed'), 0),
        coalesce(sum(k.run_s) FILTER (WHERE k.state <> 'failed'), 0),
        coalesce(sum(k.tokens_in), 0), coalesce(sum(k.tokens_out), 0), coalesce(sum(k.output_bytes), 0),
        count(*), count(*) FILTER (WHERE k.state = 'failed')
    FROM kept k
    FULL JOIN changed c ON c.id = k.job_id -- never as nested loops, which are quadratic: no row count is known here
    WHERE coalesce(k.state IN ('completed', 'failed', 'cancelled') AND k.backend IS NOT NULL, false)
    GROUP BY 1, 2, 3, 4, 5
), queued AS (
    INSERT INTO outbox (topic, job_id, user_id, generation, stage, attempt, class, lane, front, batch, not_before)
    SELECT
        CASE WHEN next_attempt_at IS NULL THEN 'jobs' ELSE 'jobs:retry' END,
        id, user_id, generation, stage, attempt, class, lane, front, batch, next_attempt_at
    FROM changed
    WHERE requeue
), mirrored AS (
    INSERT INTO outbox (topic, job_id, user_id, generation, stage, attempt, class, lane)
    SELECT 'jobs:dead', id, user_id, generation, stage, attempt, class, lane
    FROM changed
    WHERE reason IS NOT NULL
), new_dead_letters AS (
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
), new_events AS (
    INSERT INTO job_events (job_id, seq, events)
    SELECT id, event_seq, events::json
    FROM changed
    WHERE events IS NOT NULL
)
SELECT id FROM changed;

-- name: try_again
-- Keep the failed attempts of the current stages as history and make their executions pending: the retryable ones and
-- those that an expiry cancelled, or with $2 all failed and cancelled ones. With $3 only the execution of this ordinal,
-- which counts as a retry by the user; one that is pending already keeps its attempt number.
WITH again AS (
    SELECT e.*
    FROM unnest($1::uuid[]) AS chosen (id)
    JOIN jobs j ON j.id = chosen.id
    JOIN executions e ON e.job_id = j.id AND e.stage = j.stage
    WHERE
        e.ordinal = coalesce($3::integer, e.ordinal)
        AND (
            e.state = 'failed' AND ($2 OR (e.failure ->> 'retryable')::boolean)
            OR e.state = 'cancelled' AND ($2 OR j.state = 'expired')
            OR e.state = 'pending' AND $3 IS NOT NULL
        )
), kept AS (
    INSERT INTO attempts (
        job_id, stage, ordinal, attempt, state, actual_region, backend, failure, started_at, finished_at,
        queued_s, load_s, run_s
    )
    SELECT
        job_id, stage, ordinal, attempt, state, actual_region, backend, failure, started_at, finished_at,
        queued_s, load_s, run_s
    FROM again
    WHERE state <> 'pending'
    ON CONFLICT DO NOTHING
)
UPDATE executions e
SET
    state = 'pending',
    attempt = e.attempt + CASE WHEN a.state = 'pending' THEN 0 ELSE 1 END,
    retries = e.retries + CASE WHEN $3 IS NULL THEN 0 ELSE 1 END,
    actual_region = NULL,
    backend = NULL,
    failure = NULL,
    started_at = NULL,
    finished_at = NULL,
    queued_s = NULL,
    load_s = NULL,
    run_s = NULL,
    tokens_in = NULL,
    tokens_out = NULL,
    output_bytes = NULL,
    remote = NULL,
    progress = NULL,
    progress_seq = NULL,
    preview = NULL
FROM again a
WHERE
    e.job_id = a.job_id AND e.stage = a.stage AND e.item = a.item AND e.model = a.model
    AND e.region = a.region;

-- name: recount
-- Recount the executions of jobs; executions that a finished job never ran count as cancelled.
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
