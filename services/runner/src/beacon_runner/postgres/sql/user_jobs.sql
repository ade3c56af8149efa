-- name: hold
-- Stop the live jobs of a user who was disabled. The new generation makes a claim in progress fail, and the new fence
-- the writes of a worker; executions of processing jobs are cancelled at the routers and run again after the release.
WITH live AS (
    SELECT id, state
    FROM jobs
    WHERE user_id = $1 AND finished_at IS NULL
    ORDER BY id
    FOR UPDATE
), held AS (
    UPDATE jobs j
    SET
        state = 'queued',
        generation = j.generation + 1,
        fence = j.fence + CASE WHEN l.state = 'processing' THEN 1 ELSE 0 END,
        worker = NULL,
        next_attempt_at = NULL
    FROM live l
    WHERE j.id = l.id
    RETURNING j.id, l.state
)
INSERT INTO router_cancels (job_id, next_try_at)
SELECT id, now() FROM held WHERE state = 'processing'
ON CONFLICT DO NOTHING;

-- name: release
-- Queue the held jobs of a user who was enabled again, in the order in which they waited.
WITH held AS (
    SELECT id, user_id, generation, stage, attempt, class, lane, front, batch, queued_at
    FROM jobs
    WHERE user_id = $1 AND finished_at IS NULL AND state <> 'processing'
), outdated AS (
    DELETE FROM router_cancels c USING held h WHERE c.job_id = h.id
)
INSERT INTO outbox (job_id, user_id, generation, stage, attempt, class, lane, front, batch)
SELECT id, user_id, generation, stage, attempt, class, lane, front, batch
FROM held
ORDER BY queued_at, id;

-- name: cancel_all
-- End the live jobs of a user. Returns those that waited: a price that was paid for them is refunded.
WITH live AS (
    SELECT id, state, fence
    FROM jobs
    WHERE user_id = $1 AND finished_at IS NULL
    ORDER BY id
    FOR UPDATE
), ended AS (
    UPDATE jobs j
    SET
        state = 'cancelled',
        fence = j.fence + 1,
        worker = NULL,
        next_attempt_at = NULL,
        finished_at = now(),
        cancelled = j.total - j.completed - j.failed,
        event_seq = j.event_seq + 1
    FROM live l
    WHERE j.id = l.id
    RETURNING j.id, j.event_seq, j.price_paid, l.state, l.fence
), stopped AS (
    UPDATE executions e
    SET state = 'cancelled', finished_at = now()
    FROM ended
    WHERE e.job_id = ended.id AND e.state IN ('pending', 'running')
), at_routers AS (
    INSERT INTO router_cancels (job_id, next_try_at)
    SELECT id, now() FROM ended WHERE fence > 0
    ON CONFLICT DO NOTHING
), noted AS (
    INSERT INTO job_events (job_id, seq, events)
    SELECT id, event_seq, $2 FROM ended
)
SELECT id FROM ended WHERE state <> 'processing' AND price_paid > 0;
