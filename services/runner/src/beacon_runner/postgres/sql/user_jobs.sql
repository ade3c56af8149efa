-- name: lock_live_jobs_of_user
-- Before they are stopped, in a statement of its own: the next one sees the executions that a worker recorded meanwhile.
SELECT id FROM jobs WHERE user_id = $1 AND finished_at IS NULL ORDER BY id FOR UPDATE;

-- name: lock_live_jobs
-- The same for those of these jobs that are live.
SELECT id FROM jobs WHERE id = ANY ($1::uuid[]) AND finished_at IS NULL ORDER BY id FOR UPDATE;

-- name: hold
-- Stop the live jobs of a user who was disabled. The new generation makes a claim in progress fail, and the new fence
-- the writes of a worker; executions of claimed jobs are cancelled at the routers and run again after the release.
-- Scheduled jobs stay as they are: a claim does not take them.
WITH live AS (
    SELECT id, worker IS NOT NULL OR state = 'processing' AS claimed
    FROM jobs
    WHERE user_id = $1 AND finished_at IS NULL AND state <> 'scheduled'
    ORDER BY id
    FOR UPDATE
), held AS (
    UPDATE jobs j
    SET
        state = 'queued',
        generation = j.generation + 1,
        fence = j.fence + CASE WHEN l.claimed THEN 1 ELSE 0 END,
        worker = NULL,
        next_attempt_at = NULL
    FROM live l
    WHERE j.id = l.id
    RETURNING j.id, j.fence, l.claimed
), stopped AS (
    UPDATE executions e
    SET
        state = 'pending', actual_region = NULL, backend = NULL, started_at = NULL, progress = NULL,
        progress_seq = NULL, preview = NULL
    FROM held
    WHERE e.job_id = held.id AND held.claimed AND e.state IN ('queued', 'running')
)
INSERT INTO router_cancels (job_id, fence, next_try_at)
SELECT id, cancel_fence(id, fence), now() FROM held WHERE claimed
ON CONFLICT (job_id, fence) DO UPDATE SET created_at = EXCLUDED.created_at, next_try_at = EXCLUDED.next_try_at;

-- name: release
-- Queue the held jobs of a user who was enabled again, in the order in which they waited. With the new generation the
-- message of a schedule, which a worker may be dropping now, is void. What was to be cancelled at the routers starts anew.
WITH held AS (
    UPDATE jobs
    SET generation = generation + 1
    WHERE
        user_id = $1 AND finished_at IS NULL AND worker IS NULL
        AND NOT (state = 'scheduled' AND next_attempt_at IS NULL)
    RETURNING id, user_id, generation, stage, attempt, class, lane, front, batch, queued_at, next_attempt_at
), outdated AS (
    DELETE FROM router_cancels c USING held h WHERE c.job_id = h.id RETURNING c.job_id
), anew AS (
    UPDATE executions e SET remote = NULL FROM outdated o WHERE e.job_id = o.job_id AND e.remote IS NOT NULL
)
INSERT INTO outbox (topic, job_id, user_id, generation, stage, attempt, class, lane, front, batch, not_before)
SELECT
    CASE WHEN next_attempt_at IS NULL THEN 'jobs' ELSE 'jobs:retry' END,
    id, user_id, generation, stage, attempt, class, lane, front, batch, next_attempt_at
FROM held
ORDER BY queued_at, id;

-- name: end_jobs
-- End those of these jobs that are live, as cancelled or expired. The new fence makes their workers' writes fail.
-- `refund`: a price that was paid is refunded now; otherwise the answers of the routers decide.
WITH live AS (
    SELECT id, fence
    FROM jobs
    WHERE id = ANY ($1::uuid[]) AND finished_at IS NULL
    ORDER BY id
    FOR UPDATE
), ended AS (
    UPDATE jobs j
    SET
        state = $2,
        fence = j.fence + 1,
        worker = NULL,
        next_attempt_at = NULL,
        finished_at = now(),
        cancelled = j.total - j.completed - j.failed,
        event_seq = j.event_seq + 1
    FROM live l
    WHERE j.id = l.id
    RETURNING
        j.id, j.user_id, j.fence, j.generation, j.stage, j.attempt, j.class, j.lane, j.event_seq, j.price_paid,
        l.fence > 0 AS claimed
), stopped AS (
    UPDATE executions e
    SET state = 'cancelled', finished_at = now(), preview = NULL
    FROM ended
    WHERE e.job_id = ended.id AND e.state NOT IN ('completed', 'failed', 'cancelled')
), at_routers AS (
    INSERT INTO router_cancels (job_id, fence, next_try_at)
    SELECT id, cancel_fence(id, fence), now() FROM ended WHERE claimed
    ON CONFLICT (job_id, fence) DO UPDATE SET created_at = EXCLUDED.created_at, next_try_at = EXCLUDED.next_try_at
), noted AS (
    INSERT INTO job_events (job_id, seq, events)
    SELECT id, event_seq, $3 FROM ended
)
SELECT id, user_id, generation, stage, attempt, class, lane, NOT claimed AND price_paid > 0 AS refund
FROM ended;
