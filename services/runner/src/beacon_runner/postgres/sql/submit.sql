-- name: submit
-- Store new jobs and the messages that queue them: one round trip, one transaction.
-- What jobs have in common comes once: `shared` is its place in the arrays from $4 on. Specs come as one text.
-- What the express brings ($13) is not waited for on the disk here; `reach_disk` is, before anybody is answered.
-- Nobody else needs the numbers of the messages.
WITH input AS (
    SELECT i.id, i.spec, s.*
    FROM ROWS FROM (unnest($1::uuid[], $2::text::integer[]), json_array_elements($3::json)) WITH ORDINALITY
        AS i (id, shared, spec, place)
    JOIN unnest(
        $4::uuid[], $5::text[], $6::text[], $7::text[], $8::boolean[], $9::text[], $10::text[], $11::smallint[],
        $12::integer[]
    ) WITH ORDINALITY AS s (user_id, tier, class, lane, batch, kind, name, stages, total, place)
        ON s.place = i.shared
    CROSS JOIN set_config(
        'synchronous_commit', CASE WHEN $13 THEN 'off' ELSE current_setting('synchronous_commit') END, true
    ) AS waits
    ORDER BY i.place
), stored AS (
    INSERT INTO jobs (id, user_id, kind, name, spec, stages, total, tier, class, original_class, lane, batch)
    SELECT id, user_id, kind, name, spec, stages, total, tier, class, class, lane, batch
    FROM input
), queued AS (
    INSERT INTO outbox (job_id, user_id, ticket, stage, attempt, class, lane, batch, express)
    SELECT id, user_id, 1, 0, 1, class, lane, batch, $13
    FROM input
    RETURNING id
)
SELECT id FROM queued WHERE $13;

-- name: submit_keyed
-- The same for jobs of which some have an idempotency key: a key that is taken stores nothing.
WITH input AS (
    SELECT i.id, i.spec, i.idempotency_key, i.request_hash, s.*
    FROM ROWS FROM (
        unnest($1::uuid[], $2::text::integer[], $14::text[], $15::bytea[]), json_array_elements($3::json)
    ) WITH ORDINALITY AS i (id, shared, idempotency_key, request_hash, spec, place)
    JOIN unnest(
        $4::uuid[], $5::text[], $6::text[], $7::text[], $8::boolean[], $9::text[], $10::text[], $11::smallint[],
        $12::integer[]
    ) WITH ORDINALITY AS s (user_id, tier, class, lane, batch, kind, name, stages, total, place)
        ON s.place = i.shared
    CROSS JOIN set_config(
        'synchronous_commit', CASE WHEN $13 THEN 'off' ELSE current_setting('synchronous_commit') END, true
    ) AS waits
    ORDER BY i.place
), stored AS (
    INSERT INTO jobs (
        id, user_id, kind, name, spec, stages, total, tier, class, original_class, lane, batch,
        idempotency_key, request_hash
    )
    SELECT
        id, user_id, kind, name, spec, stages, total, tier, class, class, lane, batch,
        idempotency_key, request_hash
    FROM input
    ON CONFLICT (user_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING id, user_id, class, lane, batch
), queued AS (
    INSERT INTO outbox (job_id, user_id, ticket, stage, attempt, class, lane, batch, express)
    SELECT id, user_id, 1, 0, 1, class, lane, batch, $13
    FROM stored
    RETURNING id, job_id
)
SELECT id, job_id FROM queued;

-- name: submit_one
-- The same for a single job that the express brings, with or without a key: a plan of half the size.
-- The first fence of the era goes to whoever is handed its message; every claim is above it (ADR 13).
WITH stored AS (
    INSERT INTO jobs (
        id, user_id, tier, class, original_class, lane, batch, kind, name, stages, total, spec,
        idempotency_key, request_hash, lease
    )
    VALUES (
        $1, $2, $3, $4, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
        coalesce((SELECT (number << 20) + 1 FROM current_era WHERE only_row), 0)
    )
    ON CONFLICT (user_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING id, user_id, class, lane, batch, lease
)
INSERT INTO outbox (job_id, user_id, ticket, stage, attempt, class, lane, batch, express)
SELECT s.id, s.user_id, 1, 0, 1, s.class, s.lane, s.batch, true
FROM stored s
CROSS JOIN set_config('synchronous_commit', 'off', true) AS lazy
RETURNING id, job_id, (SELECT lease FROM stored) AS lease;

-- name: reach_disk
-- A commit that waits for the disk, and for standbys where commits do; all that was committed before it is there.
SELECT pg_logical_emit_message(true, 'beacon', '');

-- name: by_idempotency_keys
-- The jobs that hold these keys, with the hash of the request that made them.
SELECT i.place, j.id, j.state, j.tier, j.class, j.request_hash
FROM unnest($1::integer[], $2::uuid[], $3::text[]) AS i (place, user_id, idempotency_key)
JOIN jobs j ON j.user_id = i.user_id AND j.idempotency_key = i.idempotency_key;

-- name: batch_of
-- Those of these jobs that are there, in their order; a job that was submitted alone is no batch.
SELECT id, state, tier, class
FROM jobs
WHERE id = ANY ($1::uuid[]) AND batch
ORDER BY id;
