-- name: newest
-- The revision that applies.
SELECT
    c.revision, c.created_at, c.actor_id, coalesce(u.name, 'system') AS actor, c.key, c.comment, c.document
FROM config_revisions c
LEFT JOIN users u ON u.id = c.actor_id
ORDER BY c.revision DESC
LIMIT 1;

-- name: newest_number
-- The number of the revision that applies; null before the first one.
SELECT max(revision) FROM config_revisions;

-- name: revision
-- A revision with its document.
SELECT
    c.revision, c.created_at, c.actor_id, coalesce(u.name, 'system') AS actor, c.key, c.comment, c.document
FROM config_revisions c
LEFT JOIN users u ON u.id = c.actor_id
WHERE c.revision = $1;

-- name: newest_of_file
-- The last revision that a process has read from a file: it has no actor.
SELECT c.revision, c.created_at, c.actor_id, 'system' AS actor, c.key, c.comment, c.document
FROM config_revisions c
WHERE c.actor_id IS NULL
ORDER BY c.revision DESC
LIMIT 1;

-- name: page
-- Revisions without their documents, newest first, before a given one.
SELECT c.revision, c.created_at, c.actor_id, coalesce(u.name, 'system') AS actor, c.key, c.comment
FROM config_revisions c
LEFT JOIN users u ON u.id = c.actor_id
WHERE $1::integer IS NULL OR c.revision < $1
ORDER BY c.revision DESC
LIMIT $2;

-- name: add
-- A revision after $1; no row if that is not the newest one. Of two at the same time, one is added. Its time is
-- later than that of the one before, also by another server's clock.
INSERT INTO config_revisions (revision, created_at, actor_id, key, comment, document)
SELECT
    $1::integer + 1,
    greatest(now(), (SELECT max(created_at) + interval '1 millisecond' FROM config_revisions)),
    $2, $3, $4, $5::json
WHERE coalesce((SELECT max(revision) FROM config_revisions), 0) = $1
ON CONFLICT DO NOTHING
RETURNING revision;

-- name: live_specs
-- The remaining work of live jobs with one of these models or several models, after a given id: their specifications
-- with the executions that have ended.
SELECT
    j.id, j.spec, j.stage,
    ARRAY(
        SELECT e.ordinal
        FROM executions e
        WHERE e.job_id = j.id AND e.stage = j.stage AND e.state IN ('completed', 'failed', 'cancelled')
    ) AS ended
FROM jobs j
WHERE j.finished_at IS NULL AND (j.model = ANY ($1::text[]) OR j.model IS NULL) AND j.id > $2
ORDER BY j.id
LIMIT $3;

-- name: live_jobs
-- The number of live jobs of each of these classes.
SELECT j.class, count(*) AS jobs
FROM jobs j
WHERE j.finished_at IS NULL AND j.class = ANY ($1::text[])
GROUP BY j.class;
