-- name: find_jobs
-- Jobs that ended long ago, oldest first. Ids are ordered by time, so the primary key limits the scan.
SELECT id, state, generation, extract(EPOCH FROM now() - created_at)::double precision AS submitted_s,
    extract(EPOCH FROM now() - finished_at)::double precision AS ended_s
FROM jobs
WHERE id < id_at(now() - $1 * interval '1 second') AND finished_at < now() - $1 * interval '1 second'
ORDER BY id
LIMIT $2;

-- name: find_events
-- Jobs that ended long ago and still have events, oldest first.
SELECT j.id, j.state, j.generation, extract(EPOCH FROM now() - j.created_at)::double precision AS submitted_s,
    extract(EPOCH FROM now() - j.finished_at)::double precision AS ended_s
FROM (
    SELECT DISTINCT job_id FROM job_events WHERE job_id < id_at(now() - $1 * interval '1 second')
) AS v
JOIN jobs j ON j.id = v.job_id
WHERE j.finished_at < now() - $1 * interval '1 second'
ORDER BY j.id
LIMIT $2;

-- name: find_idempotency_keys
-- Jobs that were submitted long ago and still hold an idempotency key, oldest first.
SELECT id, state, generation, extract(EPOCH FROM now() - created_at)::double precision AS submitted_s,
    extract(EPOCH FROM now() - finished_at)::double precision AS ended_s
FROM jobs
WHERE idempotency_key IS NOT NULL AND id < id_at(now() - $1 * interval '1 second')
ORDER BY id
LIMIT $2;

-- name: remove_jobs
-- Delete jobs, with all that belongs to them, unless they were queued again since they were found; how many.
SELECT delete_jobs(
    ARRAY (
        SELECT j.id
        FROM unnest($1::uuid[], $2::integer[]) AS found (id, generation)
        JOIN jobs j ON j.id = found.id AND j.generation = found.generation
        WHERE j.finished_at IS NOT NULL
        ORDER BY j.id
        FOR UPDATE OF j SKIP LOCKED
    )
);

-- name: remove_events
-- Delete the events of jobs, unless these were queued again since they were found.
WITH ended AS (
    SELECT j.id
    FROM unnest($1::uuid[], $2::integer[]) AS found (id, generation)
    JOIN jobs j ON j.id = found.id AND j.generation = found.generation AND j.finished_at IS NOT NULL
), without_progress AS (
    UPDATE executions e
    SET progress = NULL, progress_seq = NULL
    FROM ended
    WHERE e.job_id = ended.id AND e.progress_seq IS NOT NULL
)
DELETE FROM job_events v USING ended WHERE v.job_id = ended.id;

-- name: remove_idempotency_keys
-- Free the idempotency keys of jobs; a job that was queued again meanwhile frees its key in a later run.
UPDATE jobs j
SET idempotency_key = NULL, request_hash = NULL
FROM unnest($1::uuid[], $2::integer[]) AS found (id, generation)
WHERE j.id = found.id AND j.generation = found.generation;
