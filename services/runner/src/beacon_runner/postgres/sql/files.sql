-- name: lock_owner
-- Serialises the uploads of one user, so that their sum is exact.
SELECT id FROM users WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE;

-- name: used_bytes
-- The bytes of all files of a user that have not expired.
SELECT coalesce(sum(size), 0)::bigint
FROM files
WHERE user_id = $1 AND (expires_at IS NULL OR expires_at > now());

-- name: add_file
-- Record an uploaded file, which expires after $7 seconds.
INSERT INTO files (id, user_id, name, content_type, size, sha256, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, now() + $7 * interval '1 second')
RETURNING id, user_id, name, content_type, size, sha256, created_at, expires_at, job_id, stage, ordinal;

-- name: file
-- One file that has not expired, of one user or of any.
SELECT id, user_id, name, content_type, size, sha256, created_at, expires_at, job_id, stage, ordinal
FROM files
WHERE id = $1 AND ($2::uuid IS NULL OR user_id = $2) AND (expires_at IS NULL OR expires_at > now());

-- name: files_page
-- A user's files that have not expired, newest first, before a given one.
SELECT id, user_id, name, content_type, size, sha256, created_at, expires_at, job_id, stage, ordinal
FROM files
WHERE user_id = $1 AND ($2::uuid IS NULL OR id < $2) AND (expires_at IS NULL OR expires_at > now())
ORDER BY id DESC
LIMIT $3;

-- name: outputs_of_job
-- The files that a job made, in the order of its executions, after a given one.
SELECT id, user_id, name, content_type, size, sha256, created_at, expires_at, job_id, stage, ordinal
FROM files
WHERE job_id = $1 AND (stage, ordinal, id) > ($2::smallint, $3::integer, $4::uuid)
ORDER BY stage, ordinal, id
LIMIT $5;

-- name: take_expired
-- Lock files past their expiry that no job uses, oldest first; files that others lock are left out.
SELECT id, user_id, name, content_type, size, sha256, created_at, expires_at, job_id, stage, ordinal
FROM files f
WHERE f.expires_at < now() AND NOT EXISTS (SELECT FROM job_files l WHERE l.file_id = f.id)
ORDER BY f.expires_at
LIMIT $1
FOR UPDATE OF f SKIP LOCKED;

-- name: lock_file
-- Lock one file, of one user or of any.
SELECT id, user_id, name, content_type, size, sha256, created_at, expires_at, job_id, stage, ordinal
FROM files
WHERE id = $1 AND ($2::uuid IS NULL OR user_id = $2) AND (expires_at IS NULL OR expires_at > now())
FOR UPDATE;

-- name: live_job_of_file
-- A live job that made a file or uses it.
SELECT j.id
FROM jobs j
WHERE
    j.finished_at IS NULL
    AND j.id IN (
        SELECT l.job_id FROM job_files l WHERE l.file_id = $1
        UNION ALL
        SELECT f.job_id FROM files f WHERE f.id = $1 AND f.job_id IS NOT NULL
    )
LIMIT 1;

-- name: unlink_file
-- Forget which jobs used a file; they have ended.
DELETE FROM job_files WHERE file_id = $1;

-- name: lock_usable
-- Lock those of these files that exist and have not expired, so that no other transaction deletes them.
SELECT id, user_id
FROM files
WHERE id = ANY ($1::uuid[]) AND (expires_at IS NULL OR expires_at > now())
ORDER BY id
FOR NO KEY UPDATE;

-- name: link_files
-- Keep files for the jobs that use them.
WITH linked AS (
    INSERT INTO job_files (job_id, file_id) SELECT * FROM unnest($1::uuid[], $2::uuid[])
)
UPDATE files SET expires_at = NULL WHERE id = ANY ($2) AND expires_at IS NOT NULL;

-- name: files_of_jobs
-- Of the files that jobs name, those that are linked to the job or that it has made; and what signs their addresses.
-- By a list of keys and not only by a join, so that every plan descends the primary key.
SELECT
    w.job_id AS used_by, f.id, f.user_id, f.name, f.content_type, f.size, f.sha256, f.created_at, f.expires_at, f.job_id,
    f.stage, f.ordinal, (SELECT value FROM secrets WHERE name = 'file_urls') AS secret,
    extract(EPOCH FROM now())::bigint AS now_unix
FROM unnest($1::uuid[], $2::uuid[]) AS w (job_id, file_id)
JOIN files f ON f.id = w.file_id
WHERE
    f.id = ANY ($2)
    AND (f.job_id = w.job_id OR EXISTS (SELECT FROM job_files l WHERE l.job_id = w.job_id AND l.file_id = f.id));

-- name: add_outputs
-- Record files that jobs have made; those of a repeated report exist already.
INSERT INTO files (id, user_id, job_id, stage, ordinal, name, content_type, size, sha256)
SELECT *
FROM unnest(
    $1::uuid[], $2::uuid[], $3::uuid[], $4::smallint[], $5::integer[], $6::text[], $7::text[], $8::bigint[], $9::bytea[]
)
ON CONFLICT (id) DO NOTHING;

-- name: start_run
-- How many runs of this maintenance task were counted, if one may start now: one process in $2 seconds gets a row.
INSERT INTO maintenance_runs (name, started_at) VALUES ($1, now())
ON CONFLICT (name) DO UPDATE
SET started_at = now()
WHERE maintenance_runs.started_at < now() - $2 * interval '1 second'
RETURNING counted;

-- name: count_run
-- The number of runs of a maintenance task; it never falls.
UPDATE maintenance_runs SET counted = greatest(counted, $2) WHERE name = $1;

-- name: remove_files
-- Delete records of files.
DELETE FROM files WHERE id = ANY ($1::uuid[]);

-- name: unknown_files
-- Of the given ids, those without a record.
SELECT given.id
FROM unnest($1::uuid[]) AS given (id)
WHERE NOT EXISTS (SELECT FROM files f WHERE f.id = given.id);

-- name: url_secret
-- The key with which addresses of files are signed.
SELECT value FROM secrets WHERE name = 'file_urls';
