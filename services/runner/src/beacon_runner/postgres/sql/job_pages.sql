-- name: page
-- A user's jobs, newest first, in one statement, so that a job that changes its state is listed once.
-- $1 and $2 bound the ids; $3 to $7 are the filters of `matches`. Live, not completed, and all ended jobs have an index
-- each, which is read only if its states are requested. Bounds and order are of rows and not of ids, because the planner
-- would walk along the ids of all users if there are few.
SELECT
    id, user_id, kind, name, labels, state, tier, class, stage, stages, attempt, total, completed, failed, cancelled,
    failure, created_at, started_at, finished_at, not_before, expires_at
FROM (
    (
        SELECT * FROM jobs
        WHERE
            ($3::text[] IS NULL OR $3 && ARRAY['scheduled', 'queued', 'processing', 'retrying'])
            AND finished_at IS NULL AND (user_id, id) < ($9::uuid, $1::uuid) AND (user_id, id) >= ($9, $2::uuid)
            AND matches(jobs, $3, $4::text, $5::text, $6::json::jsonb, $7::text)
        ORDER BY user_id DESC, id DESC
        LIMIT $8
    )
    UNION ALL
    (
        SELECT * FROM jobs
        WHERE
            $3 && ARRAY['partial', 'failed', 'cancelled', 'expired'] AND NOT $3 && ARRAY['completed']
            AND finished_at IS NOT NULL AND failed + cancelled > 0
            AND (user_id, id) < ($9, $1) AND (user_id, id) >= ($9, $2)
            AND matches(jobs, $3, $4, $5, $6::json::jsonb, $7)
        ORDER BY user_id DESC, id DESC
        LIMIT $8
    )
    UNION ALL
    (
        SELECT * FROM jobs
        WHERE
            ($3 IS NULL OR $3 && ARRAY['completed'])
            AND finished_at IS NOT NULL AND (user_id, id) < ($9, $1) AND (user_id, id) >= ($9, $2)
            AND matches(jobs, $3, $4, $5, $6::json::jsonb, $7)
        ORDER BY user_id DESC, id DESC
        LIMIT $8
    )
) AS either
ORDER BY user_id DESC, id DESC
LIMIT $8;

-- name: page_by_kind
-- The same for a kind other than generation, of which a user has few among many generations.
SELECT
    id, user_id, kind, name, labels, state, tier, class, stage, stages, attempt, total, completed, failed, cancelled,
    failure, created_at, started_at, finished_at, not_before, expires_at
FROM jobs
WHERE
    kind <> 'generation'
    AND (user_id, kind, id) < ($9::uuid, $4::text, $1::uuid) AND (user_id, kind, id) >= ($9, $4, $2::uuid)
    AND matches(jobs, $3::text[], $4, $5::text, $6::json::jsonb, $7::text)
ORDER BY user_id DESC, kind DESC, id DESC
LIMIT $8;

-- name: page_by_model
-- The same for a model: jobs of one model, and those that have it among others.
SELECT
    id, user_id, kind, name, labels, state, tier, class, stage, stages, attempt, total, completed, failed, cancelled,
    failure, created_at, started_at, finished_at, not_before, expires_at
FROM (
    (
        SELECT * FROM jobs
        WHERE
            model IS NOT NULL
            AND (user_id, model, id) < ($9::uuid, $5::text, $1::uuid) AND (user_id, model, id) >= ($9, $5, $2::uuid)
            AND matches(jobs, $3::text[], $4::text, $5, $6::json::jsonb, $7::text)
        ORDER BY user_id DESC, model DESC, id DESC
        LIMIT $8
    )
    UNION ALL
    (
        SELECT j.*
        FROM job_labels l
        CROSS JOIN LATERAL (
            SELECT * FROM jobs
            WHERE id = l.job_id AND matches(jobs, $3, $4, $5, $6::json::jsonb, $7)
            OFFSET 0 -- each by its key, never merged with all jobs
        ) AS j
        WHERE l.user_id = $9 AND l.label = label_key('model', $5) AND l.job_id < $1 AND l.job_id >= $2
        ORDER BY l.job_id DESC
        LIMIT $8
    )
) AS either
ORDER BY id DESC
LIMIT $8;

-- name: page_by_label
-- The same for a label, whose kind and text are $10 and $11.
SELECT
    j.id, j.user_id, j.kind, j.name, j.labels, j.state, j.tier, j.class, j.stage, j.stages, j.attempt, j.total,
    j.completed, j.failed, j.cancelled, j.failure, j.created_at, j.started_at, j.finished_at, j.not_before,
    j.expires_at
FROM job_labels l
CROSS JOIN LATERAL (
    SELECT * FROM jobs
    WHERE id = l.job_id AND matches(jobs, $3::text[], $4::text, $5::text, $6::json::jsonb, $7::text)
    OFFSET 0
) AS j
WHERE l.user_id = $9 AND l.label = label_key($10, $11) AND l.job_id < $1::uuid AND l.job_id >= $2::uuid
ORDER BY l.job_id DESC
LIMIT $8;

-- name: page_by_name
-- The same for the beginning of a name. Few jobs with it are found by its index and sorted; many are found along the
-- newest jobs.
WITH named AS MATERIALIZED (
    SELECT id FROM jobs
    WHERE
        user_id = $9 AND name <> ''
        AND lower(name) COLLATE "C" >= lower($7::text) COLLATE "C"
        AND lower(name) COLLATE "C" < (lower($7) || chr(1114111)) COLLATE "C"
    LIMIT $10::integer + 1
), found AS MATERIALIZED (
    SELECT count(*) <= $10 AS few FROM named
)
SELECT
    id, user_id, kind, name, labels, state, tier, class, stage, stages, attempt, total, completed, failed, cancelled,
    failure, created_at, started_at, finished_at, not_before, expires_at
FROM (
    (
        SELECT j.*
        FROM named n
        CROSS JOIN LATERAL (
            SELECT * FROM jobs
            WHERE id = n.id AND matches(jobs, $3::text[], $4::text, $5::text, $6::json::jsonb, $7)
            OFFSET 0
        ) AS j
        WHERE (SELECT few FROM found) AND n.id < $1::uuid AND n.id >= $2::uuid
        ORDER BY n.id DESC
        LIMIT $8
    )
    UNION ALL
    (
        SELECT * FROM jobs
        WHERE
            NOT (SELECT few FROM found) AND finished_at IS NULL
            AND (user_id, id) < ($9, $1) AND (user_id, id) >= ($9, $2)
            AND matches(jobs, $3, $4, $5, $6::json::jsonb, $7)
        ORDER BY user_id DESC, id DESC
        LIMIT $8
    )
    UNION ALL
    (
        SELECT * FROM jobs
        WHERE
            NOT (SELECT few FROM found) AND finished_at IS NOT NULL
            AND (user_id, id) < ($9, $1) AND (user_id, id) >= ($9, $2)
            AND matches(jobs, $3, $4, $5, $6::json::jsonb, $7)
        ORDER BY user_id DESC, id DESC
        LIMIT $8
    )
) AS either
ORDER BY id DESC
LIMIT $8;

-- name: page_of_all
-- All users' jobs, newest first.
SELECT
    id, user_id, kind, name, labels, state, tier, class, stage, stages, attempt, total, completed, failed, cancelled,
    failure, created_at, started_at, finished_at, not_before, expires_at
FROM jobs
WHERE
    id < $1::uuid AND id >= $2::uuid
    AND matches(jobs, $3::text[], $4::text, $5::text, $6::json::jsonb, $7::text)
ORDER BY id DESC
LIMIT $8;

-- name: page_of_all_by_label
-- The same for a label, whose kind and text are $9 and $10.
SELECT
    j.id, j.user_id, j.kind, j.name, j.labels, j.state, j.tier, j.class, j.stage, j.stages, j.attempt, j.total,
    j.completed, j.failed, j.cancelled, j.failure, j.created_at, j.started_at, j.finished_at, j.not_before,
    j.expires_at
FROM job_labels l
CROSS JOIN LATERAL (
    SELECT * FROM jobs
    WHERE id = l.job_id AND matches(jobs, $3::text[], $4::text, $5::text, $6::json::jsonb, $7::text)
    OFFSET 0
) AS j
WHERE l.label = label_key($9, $10) AND l.job_id < $1::uuid AND l.job_id >= $2::uuid
ORDER BY l.job_id DESC
LIMIT $8;
