-- name: claim
-- Fence the jobs whose message is current and whose user is not disabled, and return them with the recorded executions of their stage.
-- A job is processing when an execution has started, which `record` writes: until then it stays queued.
-- By a list of keys and not by a join: fewer index descents. Generations other than 1 and lanes that the queue has
-- chosen are sent as JSON objects by job id.
-- Live by state, not by finished_at: with finished_at the planner could scan the index of all live jobs.
UPDATE jobs j
SET
    state = CASE WHEN j.state IN ('scheduled', 'retrying') THEN 'queued' ELSE j.state END,
    fence = j.fence + 1,
    deliveries = j.deliveries + 1,
    worker = $4,
    lane = coalesce($3::jsonb ->> j.id::text, j.lane),
    next_attempt_at = NULL
WHERE
    j.id = ANY ($1::text::uuid[]) AND j.generation = coalesce(($2::jsonb ->> j.id::text)::integer, 1)
    AND j.state IN ('scheduled', 'queued', 'processing', 'retrying')
    AND (SELECT u.disabled_at FROM users u WHERE u.id = j.user_id) IS NULL
RETURNING
    j.id, j.user_id, j.fence, j.generation, j.stage, j.stages, j.attempt, j.kind, j.spec, j.context, j.tier,
    j.front, j.deliveries, j.deferred, j.state, (SELECT u.weight FROM users u WHERE u.id = j.user_id) AS weight,
    CASE
        WHEN j.fence > 1 THEN (
            SELECT
                json_agg(
                    json_build_object(
                        'ordinal', e.ordinal, 'state', e.state, 'attempt', e.attempt, 'failure', e.failure,
                        'output', CASE WHEN j.kind = 'pipeline' THEN e.output END, 'remote', e.remote
                    )
                )
            FROM executions e
            WHERE e.job_id = j.id AND e.stage = j.stage
        )
    END AS recorded;

-- name: uncount
-- Take back the deliveries of claims whose answer was lost; a job may be listed twice.
UPDATE jobs j
SET deliveries = greatest(j.deliveries - m.times, 0)
FROM (
    SELECT id, generation, count(*)::smallint AS times
    FROM unnest($1::uuid[], $2::integer[]) AS given (id, generation)
    GROUP BY id, generation
) AS m
WHERE j.id = m.id AND j.generation = m.generation AND j.finished_at IS NULL;
