-- name: page
-- A user's jobs, newest first, in one statement, so that a job that changes its state is listed once.
-- $1 and $2 bound the ids; $3 to $7 are the filters of `matches`; $8 bounds the rows, and $9 the jobs that are examined:
-- the last of these is a row too, with $9 as its `place`, so that the search can be continued after it.
-- Live, not completed, and all ended jobs have an index each, which is read only if its states are requested. Bounds and
-- order are of rows and not of ids, because the planner would walk along the ids of all users if there are few.
SELECT
    id, user_id, kind, name, labels, state, tier, class, stage, stages, attempt, total, completed, failed, cancelled,
    failure, created_at, started_at, finished_at, not_before, expires_at, found, place
FROM (
    SELECT *, row_number() OVER (ORDER BY user_id DESC, id DESC) AS place
    FROM (
        (
            SELECT *, matches(jobs, $3::text[], $4::text, $5::text, $6::json::jsonb, $7::text) AS found
            FROM jobs
            WHERE
                ($3 IS NULL OR $3 && ARRAY['scheduled', 'queued', 'processing', 'retrying'])
                AND finished_at IS NULL AND (user_id, id) < ($10::uuid, $1::uuid) AND (user_id, id) >= ($10, $2::uuid)
            ORDER BY user_id DESC, id DESC
            LIMIT $9
        )
        UNION ALL
        (
            SELECT *, matches(jobs, $3, $4, $5, $6::json::jsonb, $7) AS found
            FROM jobs
            WHERE
                $3 && ARRAY['partial', 'failed', 'cancelled', 'expired'] AND NOT $3 && ARRAY['completed']
                AND finished_at IS NOT NULL AND failed + cancelled > 0
                AND (user_id, id) < ($10, $1) AND (user_id, id) >= ($10, $2)
            ORDER BY user_id DESC, id DESC
            LIMIT $9
        )
        UNION ALL
        (
            SELECT *, matches(jobs, $3, $4, $5, $6::json::jsonb, $7) AS found
            FROM jobs
            WHERE
                ($3 IS NULL OR $3 && ARRAY['completed'])
                AND finished_at IS NOT NULL AND (user_id, id) < ($10, $1) AND (user_id, id) >= ($10, $2)
            ORDER BY user_id DESC, id DESC
            LIMIT $9
        )
    ) AS either
) AS examined
WHERE found OR place = $9::bigint
ORDER BY user_id DESC, id DESC
LIMIT $8;

-- name: page_by_kind
-- The same for a kind other than generation, of which a user has few among many generations.
SELECT
    id, user_id, kind, name, labels, state, tier, class, stage, stages, attempt, total, completed, failed, cancelled,
    failure, created_at, started_at, finished_at, not_before, expires_at, found, place
FROM (
    SELECT
        *, matches(jobs, $3::text[], $4::text, $5::text, $6::json::jsonb, $7::text) AS found,
        row_number() OVER (ORDER BY kind DESC, user_id DESC, id DESC) AS place
    FROM jobs
    WHERE
        kind <> 'generation'
        AND (kind, user_id, id) < ($4, $10::uuid, $1::uuid) AND (kind, user_id, id) >= ($4, $10, $2::uuid)
    ORDER BY kind DESC, user_id DESC, id DESC
    LIMIT $9
) AS examined
WHERE found OR place = $9::bigint
ORDER BY kind DESC, user_id DESC, id DESC
LIMIT $8;

-- name: page_by_model
-- The same for a model: jobs of one model, and those that have it among others. The search ends at the first of the two
-- rows with $9 as their `place`.
SELECT
    id, user_id, kind, name, labels, state, tier, class, stage, stages, attempt, total, completed, failed, cancelled,
    failure, created_at, started_at, finished_at, not_before, expires_at, found, place
FROM (
    (
        SELECT *
        FROM (
            SELECT
                *, matches(jobs, $3::text[], $4::text, $5::text, $6::json::jsonb, $7::text) AS found,
                row_number() OVER (ORDER BY model DESC, user_id DESC, id DESC) AS place
            FROM jobs
            WHERE
                model IS NOT NULL
                AND (model, user_id, id) < ($5, $10::uuid, $1::uuid) AND (model, user_id, id) >= ($5, $10, $2::uuid)
            ORDER BY model DESC, user_id DESC, id DESC
            LIMIT $9
        ) AS examined
        WHERE found OR place = $9::bigint
        LIMIT $8
    )
    UNION ALL
    (
        SELECT *
        FROM (
            SELECT j.*, row_number() OVER (ORDER BY l.job_id DESC) AS place
            FROM job_labels l
            CROSS JOIN LATERAL (
                SELECT *, matches(jobs, $3, $4, $5, $6::json::jsonb, $7) AS found
                FROM jobs
                WHERE id = l.job_id
                OFFSET 0 -- each by its key, never merged with all jobs
            ) AS j
            WHERE l.user_id = $10 AND l.label = label_key('model', $5) AND l.job_id < $1 AND l.job_id >= $2
            ORDER BY l.job_id DESC
            LIMIT $9
        ) AS examined
        WHERE found OR place = $9
        LIMIT $8
    )
) AS either
ORDER BY id DESC
LIMIT $8;

-- name: page_by_label
-- The same for a label, whose kind and text are $11 and $12.
SELECT
    id, user_id, kind, name, labels, state, tier, class, stage, stages, attempt, total, completed, failed, cancelled,
    failure, created_at, started_at, finished_at, not_before, expires_at, found, place
FROM (
    SELECT j.*, row_number() OVER (ORDER BY l.job_id DESC) AS place
    FROM job_labels l
    CROSS JOIN LATERAL (
        SELECT *, matches(jobs, $3::text[], $4::text, $5::text, $6::json::jsonb, $7::text) AS found
        FROM jobs
        WHERE id = l.job_id
        OFFSET 0
    ) AS j
    WHERE l.user_id = $10 AND l.label = label_key($11, $12) AND l.job_id < $1::uuid AND l.job_id >= $2::uuid
    ORDER BY l.job_id DESC
    LIMIT $9
) AS examined
WHERE found OR place = $9::bigint
LIMIT $8;

-- name: page_of_all
-- The same of all users.
SELECT
    id, user_id, kind, name, labels, state, tier, class, stage, stages, attempt, total, completed, failed, cancelled,
    failure, created_at, started_at, finished_at, not_before, expires_at, found, place
FROM (
    SELECT
        *, matches(jobs, $3::text[], $4::text, $5::text, $6::json::jsonb, $7::text) AS found,
        row_number() OVER (ORDER BY id DESC) AS place
    FROM jobs
    WHERE id < $1::uuid AND id >= $2::uuid
    ORDER BY id DESC
    LIMIT $9
) AS examined
WHERE found OR place = $9::bigint
ORDER BY id DESC
LIMIT $8;

-- name: page_of_all_by_outcome
-- The same of all users for $10, a final state other than completed.
SELECT
    id, user_id, kind, name, labels, state, tier, class, stage, stages, attempt, total, completed, failed, cancelled,
    failure, created_at, started_at, finished_at, not_before, expires_at, found, place
FROM (
    SELECT
        *, matches(jobs, $3::text[], $4::text, $5::text, $6::json::jsonb, $7::text) AS found,
        row_number() OVER (ORDER BY outcome DESC, id DESC) AS place
    FROM jobs
    WHERE outcome <> 'completed' AND (outcome, id) < ($10::text, $1::uuid) AND (outcome, id) >= ($10, $2::uuid)
    ORDER BY outcome DESC, id DESC
    LIMIT $9
) AS examined
WHERE found OR place = $9::bigint
ORDER BY outcome DESC, id DESC
LIMIT $8;

-- name: page_of_all_by_label
-- The same of all users for a label, whose kind and text are $10 and $11.
SELECT
    id, user_id, kind, name, labels, state, tier, class, stage, stages, attempt, total, completed, failed, cancelled,
    failure, created_at, started_at, finished_at, not_before, expires_at, found, place
FROM (
    SELECT j.*, row_number() OVER (ORDER BY l.job_id DESC) AS place
    FROM job_labels l
    CROSS JOIN LATERAL (
        SELECT *, matches(jobs, $3::text[], $4::text, $5::text, $6::json::jsonb, $7::text) AS found
        FROM jobs
        WHERE id = l.job_id
        OFFSET 0
    ) AS j
    WHERE l.label = label_key($10, $11) AND l.job_id < $1::uuid AND l.job_id >= $2::uuid
    ORDER BY l.job_id DESC
    LIMIT $9
) AS examined
WHERE found OR place = $9::bigint
LIMIT $8;

-- name: page_of_given
-- Those of the given jobs that match, newest first; of them $8 at most.
SELECT
    id, user_id, kind, name, labels, state, tier, class, stage, stages, attempt, total, completed, failed, cancelled,
    failure, created_at, started_at, finished_at, not_before, expires_at, found, place
FROM unnest($9::uuid[]) AS given (job_id)
CROSS JOIN LATERAL (
    SELECT *, matches(jobs, $3::text[], $4::text, $5::text, $6::json::jsonb, $7::text) AS found, 0::bigint AS place
    FROM jobs
    WHERE id = given.job_id
    OFFSET 0
) AS j
WHERE found AND id < $1::uuid AND id >= $2::uuid
ORDER BY id DESC
LIMIT $8;

-- name: some_by_name
-- At most $1 jobs of the user $2 whose name begins with a text, in no order.
SELECT id
FROM jobs
WHERE
    name <> ''
    AND (user_id, lower(name) COLLATE "C") >= ($2::uuid, lower($3::text) COLLATE "C")
    AND (user_id, lower(name) COLLATE "C") < ($2, (lower($3) || chr(1114111)) COLLATE "C")
LIMIT $1;

-- name: some_of_all_by_name
-- The same of all users.
SELECT id
FROM jobs
WHERE
    name <> ''
    AND lower(name) COLLATE "C" >= lower($2::text) COLLATE "C"
    AND lower(name) COLLATE "C" < (lower($2) || chr(1114111)) COLLATE "C"
LIMIT $1;

-- name: some_by_outcome
-- The same for final states other than completed.
SELECT id FROM jobs WHERE outcome = ANY ($3::text[]) AND outcome <> 'completed' AND user_id = $2 LIMIT $1;

-- name: some_of_all_by_outcome
-- The same of all users.
SELECT id FROM jobs WHERE outcome = ANY ($2::text[]) AND outcome <> 'completed' LIMIT $1;

-- name: some_of_all_live
-- Live jobs of all users.
SELECT id FROM jobs WHERE finished_at IS NULL LIMIT $1;

-- name: some_by_kind
-- The same for a kind other than generation.
SELECT id FROM jobs WHERE kind = $3 AND kind <> 'generation' AND user_id = $2 LIMIT $1;

-- name: some_of_all_by_kind
-- The same of all users.
SELECT id FROM jobs WHERE kind = $2 AND kind <> 'generation' LIMIT $1;

-- name: some_by_model
-- The same for a model, alone or among others.
SELECT id FROM jobs WHERE model = $3 AND user_id = $2
UNION ALL
SELECT job_id FROM job_labels WHERE user_id = $2 AND label = label_key('model', $3)
LIMIT $1;

-- name: some_of_all_by_model
-- The same of all users.
SELECT id FROM jobs WHERE model = $2
UNION ALL
SELECT job_id FROM job_labels WHERE label = label_key('model', $2)
LIMIT $1;

-- name: some_by_label
-- The same for a label, whose kind and text are $3 and $4.
SELECT job_id AS id FROM job_labels WHERE user_id = $2 AND label = label_key($3, $4) LIMIT $1;

-- name: some_of_all_by_label
-- The same of all users.
SELECT job_id AS id FROM job_labels WHERE label = label_key($2, $3) LIMIT $1;
