-- name: dead_page
-- Dead letters, newest first, after a cursor whose letter may have been removed.
SELECT d.job_id, d.died_at, d.stage, d.attempt, d.reason, d.failure, j.user_id, j.kind, j.name, j.state, j.class
FROM dead_letters d
JOIN jobs j ON j.id = d.job_id
WHERE
    (d.died_at, d.job_id) < (
        coalesce($1::timestamptz, 'infinity'), coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    )
ORDER BY d.died_at DESC, d.job_id DESC
LIMIT $3;

-- name: dead_count
-- How many dead letters there are.
SELECT count(*) FROM dead_letters;

-- name: purge
-- Remove the dead letters of these jobs; the jobs stay readable.
DELETE FROM dead_letters WHERE job_id = ANY ($1::uuid[]) RETURNING job_id;

-- name: purge_all
-- Remove every dead letter.
DELETE FROM dead_letters RETURNING job_id;

-- name: take_letters
-- The oldest dead letters up to a time, to requeue them in batches; letters written later are not included.
SELECT job_id FROM dead_letters WHERE died_at <= $2 ORDER BY died_at, job_id LIMIT $1;

-- name: lock_dead
-- Lock those of these jobs that are dead letters, in the order of their ids.
SELECT j.id, j.state
FROM jobs j
JOIN dead_letters d ON d.job_id = j.id
WHERE j.id = ANY ($1::uuid[])
ORDER BY j.id
FOR UPDATE OF j;
