-- name: submit
-- Store new jobs with their outbox rows; fails if an idempotency key is taken. Returns the ids of the outbox rows.
-- Values that jobs share are sent once: `shared` is their index in the arrays from $7 on. Specs are one JSON text.
-- The first event is not stored: it is the job's own row (job_queries.sql).
WITH stored AS (
    INSERT INTO jobs (
        id, user_id, kind, name, spec, stages, total, tier, class, original_class, lane, batch,
        idempotency_key, request_hash, model, labels
    )
    SELECT
        i.id, s.user_id, s.kind, s.name, i.spec, s.stages, s.total, s.tier, s.class, s.class, s.lane, s.batch,
        i.idempotency_key, i.request_hash, s.model, i.labels::jsonb
    FROM ROWS FROM (
        unnest($1::text::uuid[], $2::text::integer[], $4::text[], $5::bytea[], $6::text[]),
        json_array_elements($3::json)
    ) WITH ORDINALITY AS i (id, shared, idempotency_key, request_hash, labels, spec, place)
    JOIN unnest(
        $7::uuid[], $8::text[], $9::text[], $10::text[], $11::boolean[], $12::text[], $13::text[], $14::smallint[],
        $15::integer[], $16::text[]
    ) WITH ORDINALITY AS s (user_id, tier, class, lane, batch, kind, name, stages, total, model, place)
        ON s.place = i.shared
    ORDER BY i.place
    RETURNING id, user_id, class, lane, batch, labels
), labelled AS (
    INSERT INTO job_labels (user_id, job_id, label)
    SELECT s.user_id, s.id, k.label
    FROM stored s
    CROSS JOIN LATERAL label_keys(s.labels) AS k (label)
    WHERE s.labels IS NOT NULL
)
INSERT INTO outbox (job_id, user_id, generation, stage, attempt, class, lane, batch)
SELECT id, user_id, 1, 0, 1, class, lane, batch
FROM stored
RETURNING job_id, id;

-- name: by_idempotency_keys
-- The jobs that hold these keys, with the hash of the request that created them.
SELECT i.place, j.id, j.state, j.tier, j.class, j.request_hash
FROM unnest($1::integer[], $2::uuid[], $3::text[]) AS i (place, user_id, idempotency_key)
JOIN jobs j ON j.user_id = i.user_id AND j.idempotency_key = i.idempotency_key;

-- name: batch_of
-- Those of these jobs that exist, in their order; a job that was submitted alone is not a batch.
SELECT id, state, tier, class
FROM jobs
WHERE id = ANY ($1::uuid[]) AND batch
ORDER BY id;

-- name: lock_users
-- Lock these users: what is counted next stays correct until the commit.
SELECT id FROM users WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE;

-- name: used
-- What users have: live jobs, jobs of the last hour, and when the hourly limit frees if it is used up.
-- Counts stop at the given bounds.
SELECT u.id AS user_id, live.pending, recent.this_hour, recent.frees_in_s
FROM unnest($1::uuid[], $2::integer[], $3::integer[]) AS u (id, most_pending, most_this_hour)
CROSS JOIN LATERAL (
    SELECT count(*) AS pending
    FROM (
        SELECT FROM jobs j WHERE j.user_id = u.id AND j.finished_at IS NULL LIMIT u.most_pending
    ) AS counted
) AS live
CROSS JOIN LATERAL (
    SELECT
        count(*) AS this_hour,
        CASE
            WHEN count(*) >= u.most_this_hour
                THEN extract(EPOCH FROM min(counted.created_at) + interval '1 hour' - now())::double precision
        END AS frees_in_s
    FROM (
        (
            SELECT j.id, j.created_at FROM jobs j
            WHERE j.user_id = u.id AND j.finished_at IS NULL AND j.id >= id_at(now() - interval '1 hour')
            ORDER BY j.id DESC
            LIMIT u.most_this_hour
        )
        UNION ALL
        (
            SELECT j.id, j.created_at FROM jobs j
            WHERE j.user_id = u.id AND j.finished_at IS NOT NULL AND j.id >= id_at(now() - interval '1 hour')
            ORDER BY j.id DESC
            LIMIT u.most_this_hour
        )
        ORDER BY id DESC
        LIMIT u.most_this_hour
    ) AS counted
) AS recent;
