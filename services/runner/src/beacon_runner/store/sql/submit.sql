-- name: submit
-- Store new jobs and the messages that queue them: one round trip, one transaction.
WITH input AS (
    SELECT *
    FROM unnest(
        $1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::json[], $6::smallint[], $7::integer[],
        $8::text[], $9::text[], $10::text[], $11::text[]
    ) AS i (id, user_id, kind, name, spec, stages, total, tier, class, lane, batch)
), stored AS (
    INSERT INTO jobs (id, user_id, kind, name, spec, stages, total, tier, class, original_class, lane, batch)
    SELECT id, user_id, kind, name, spec, stages, total, tier, class, class, lane, batch
    FROM input
)
INSERT INTO outbox (job_id, ticket, stage, attempt, class, lane, batch, express)
SELECT id, 1, 0, 1, class, lane, batch, $12
FROM input
RETURNING id, job_id;

-- name: submit_keyed
-- The same for jobs of which some have an idempotency key: a key that is taken stores nothing.
WITH input AS (
    SELECT *
    FROM unnest(
        $1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::json[], $6::smallint[], $7::integer[],
        $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::bytea[]
    ) AS i (
        id, user_id, kind, name, spec, stages, total, tier, class, lane, batch, idempotency_key, request_hash
    )
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
    RETURNING id, class, lane, batch
), queued AS (
    INSERT INTO outbox (job_id, ticket, stage, attempt, class, lane, batch, express)
    SELECT id, 1, 0, 1, class, lane, batch, $14
    FROM stored
    RETURNING id, job_id
)
SELECT id, job_id FROM queued;

-- name: by_idempotency_keys
-- The jobs that hold these keys, with the hash of the request that made them.
SELECT i.place, j.id, j.state, j.tier, j.class, j.request_hash
FROM unnest($1::integer[], $2::uuid[], $3::text[]) AS i (place, user_id, idempotency_key)
JOIN jobs j ON j.user_id = i.user_id AND j.idempotency_key = i.idempotency_key;

-- name: batch_of
-- The jobs of the batch that a given job is the first of, in their order.
SELECT j.id, j.state, j.tier, j.class
FROM jobs f
JOIN jobs j ON j.user_id = f.user_id AND j.id >= f.id AND j.batch = f.batch
WHERE f.id = $1
ORDER BY j.id
LIMIT $2;
