-- name: claim
-- Fence the jobs that these messages still speak for, and hand out all that working on them needs.
-- By a list of keys and not by a join: the index is descended a few times for all of them, and Postgres carries no
-- copies of what it joined. So what messages differ in comes by job: tickets other than 1, and lanes that the queue
-- has chosen.
-- Live by state, not by finished_at: that would offer the planner the index of all live jobs to walk along.
-- Not waited for on the disk: a claim that a crash forgets has its fence in an era that is over (ADR 8).
UPDATE jobs j
SET
    state = 'processing',
    lease = greatest(j.lease, (SELECT number << 20 FROM current_era WHERE only_row)) + 1,
    deliveries = j.deliveries + 1,
    worker = $4,
    lane = coalesce($3::jsonb ->> j.id::text, j.lane),
    started_at = coalesce(j.started_at, now()),
    next_attempt_at = NULL
WHERE
    j.id = ANY ($1::text::uuid[]) AND j.ticket = coalesce(($2::jsonb ->> j.id::text)::integer, 1)
    AND j.state IN ('queued', 'processing', 'retrying') AND j.deliveries < $5
    AND EXISTS (SELECT FROM current_era WHERE only_row)
    AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
RETURNING
    j.id, j.user_id, j.lease, j.ticket, j.stage, j.stages, j.attempt, j.kind, j.spec, j.context, j.tier,
    j.front, j.started_at < now() AS claimed_before, j.postponed;

-- name: confirm
-- What was begun on a grant is this worker's, if nobody has claimed, cancelled or paid for it, and no crash has come
-- in between (ADR 13). Not waited for on the disk, as a claim.
UPDATE jobs j
SET
    state = 'processing',
    deliveries = j.deliveries + 1,
    worker = $3,
    lane = coalesce($4, j.lane),
    started_at = now()
WHERE
    j.id = $1 AND j.lease = $2 AND j.state = 'queued' AND NOT j.front
    AND EXISTS (SELECT FROM current_era WHERE only_row AND number = $2 >> 20)
    AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
RETURNING j.id;

-- name: uncount
-- Take back the deliveries of claims that nobody heard of; a job may be among them twice.
UPDATE jobs j
SET deliveries = greatest(j.deliveries - m.times, 0)
FROM (
    SELECT id, ticket, count(*)::smallint AS times
    FROM unnest($1::uuid[], $2::integer[]) AS given (id, ticket)
    GROUP BY id, ticket
) AS m
WHERE j.id = m.id AND j.ticket = m.ticket AND j.state IN ('queued', 'processing', 'retrying');

-- name: begin_era
-- Begin an era if there is none. It is named by its second, so that it also outgrows what a standby missed.
WITH begun AS (
    UPDATE last_era
    SET number = greatest(number + 1, extract(EPOCH FROM clock_timestamp())::bigint)
    WHERE only_row AND NOT EXISTS (SELECT FROM current_era WHERE only_row)
    RETURNING number
)
INSERT INTO current_era (number) SELECT number FROM begun
ON CONFLICT (only_row) DO NOTHING;

-- name: known
-- What is recorded of the executions of these jobs' current stages; outputs only where later steps need them.
SELECT
    e.job_id, e.ordinal, e.state, e.attempt, e.failure,
    CASE WHEN j.kind = 'pipeline' THEN e.output END AS output, e.started_at IS NOT NULL AS told
FROM jobs j
JOIN executions e ON e.job_id = j.id AND e.stage = j.stage
WHERE j.id = ANY ($1::uuid[]);

-- name: bury_poison
-- End the jobs that were delivered too often without a verdict: they kill or outlive their workers.
WITH poison AS (
    UPDATE jobs j
    SET
        state = CASE WHEN j.completed > 0 THEN 'partial' ELSE 'failed' END,
        lease = j.lease + 1,
        worker = NULL,
        postponed = NULL,
        next_attempt_at = NULL,
        finished_at = now(),
        failure = $4,
        event_seq = j.event_seq + 1
    FROM unnest($1::uuid[], $2::integer[]) AS m (id, ticket)
    WHERE j.id = m.id AND j.ticket = m.ticket AND j.state IN ('queued', 'processing', 'retrying')
    AND j.deliveries >= $3
    RETURNING j.id, j.user_id, j.ticket, j.stage, j.attempt, j.class, j.lane, j.event_seq, j.state
), letter AS (
    INSERT INTO dead_letters (job_id, stage, attempt, reason, failure)
    SELECT id, stage, attempt, 'poison', $4
    FROM poison
    ON CONFLICT (job_id) DO UPDATE
    SET
        died_at = EXCLUDED.died_at,
        stage = EXCLUDED.stage,
        attempt = EXCLUDED.attempt,
        reason = EXCLUDED.reason,
        failure = EXCLUDED.failure
), mirrored AS (
    INSERT INTO outbox (topic, job_id, user_id, ticket, stage, attempt, class, lane, reason)
    SELECT 'jobs:dead', id, user_id, ticket, stage, attempt, class, lane, 'poison'
    FROM poison
), told AS (
    INSERT INTO job_events (job_id, seq, events)
    SELECT
        id, event_seq,
        json_build_array(
            json_build_object(
                'type', CASE WHEN state = 'partial' THEN 'JOB_PARTIAL' ELSE 'JOB_FAILED' END,
                'data', json_build_object('reason', 'poison', 'failure', $4::json)
            )
        )
    FROM poison
), stopped AS (
    UPDATE executions e
    SET state = 'failed', failure = $4, finished_at = now()
    FROM poison p
    WHERE e.job_id = p.id AND e.stage = p.stage AND e.state IN ('pending', 'running')
)
SELECT id FROM poison;
