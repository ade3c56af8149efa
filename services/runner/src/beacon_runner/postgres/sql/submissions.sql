-- name: submit
-- Store new jobs with their outbox rows; fails if an idempotency key is taken. Returns the ids of the outbox rows.
-- Values that jobs share are sent once: `shared` is their index in the arrays from $10 on. Specs are one JSON text.
-- Jobs that wait for a limit have no outbox row yet.
-- The first event is not stored: it is the job's own row (job_queries.sql).
WITH stored AS (
    INSERT INTO jobs (
        id, user_id, kind, name, spec, stages, total, tier, class, original_class, lane, batch,
        idempotency_key, request_hash, model, labels, scheduled, state, not_before, next_attempt_at, queued_at,
        expires_at, webhook, key_id
    )
    SELECT
        i.id, s.user_id, s.kind, s.name, i.spec, s.stages, s.total, s.tier, s.class, s.class, s.lane, s.batch,
        i.idempotency_key, i.request_hash, s.model, i.labels::jsonb,
        i.waits IS TRUE OR i.not_before IS NOT NULL,
        CASE WHEN i.waits IS TRUE OR i.not_before IS NOT NULL THEN 'scheduled' ELSE 'queued' END,
        i.not_before,
        CASE WHEN i.waits IS NOT TRUE THEN i.not_before END,
        coalesce(CASE WHEN i.waits IS NOT TRUE THEN i.not_before END, now()),
        i.expires_at, s.webhook::json, s.key_id
    FROM ROWS FROM (
        unnest(
            $1::text::uuid[], $2::text::integer[], $4::text[], $5::bytea[], $6::text[], $7::timestamptz[],
            $8::timestamptz[], $9::boolean[]
        ),
        json_array_elements($3::json)
    ) WITH ORDINALITY AS i (
        id, shared, idempotency_key, request_hash, labels, not_before, expires_at, waits, spec, place
    )
    JOIN unnest(
        $10::uuid[], $11::text[], $12::text[], $13::text[], $14::boolean[], $15::text[], $16::text[], $17::smallint[],
        $18::integer[], $19::text[], $20::text[], $21::uuid[]
    ) WITH ORDINALITY AS s (user_id, tier, class, lane, batch, kind, name, stages, total, model, webhook, key_id, place)
        ON s.place = i.shared
    ORDER BY i.place
    RETURNING id, user_id, class, lane, batch, labels, scheduled, next_attempt_at
), labelled AS (
    INSERT INTO job_labels (user_id, job_id, label)
    SELECT s.user_id, s.id, k.label
    FROM stored s
    CROSS JOIN LATERAL label_keys(s.labels) AS k (label)
    WHERE s.labels IS NOT NULL
), starting_later AS (
    INSERT INTO scheduled_starts (job_id, starts_at)
    SELECT id, next_attempt_at FROM stored WHERE next_attempt_at IS NOT NULL
), waiting AS (
    INSERT INTO limit_waits (user_id, job_id)
    SELECT user_id, id FROM stored WHERE scheduled AND next_attempt_at IS NULL
)
INSERT INTO outbox (topic, job_id, user_id, generation, stage, attempt, class, lane, batch, not_before)
SELECT
    CASE WHEN next_attempt_at IS NULL THEN 'jobs' ELSE 'jobs:retry' END,
    id, user_id, 1, 0, 1, class, lane, batch, next_attempt_at
FROM stored
WHERE next_attempt_at IS NOT NULL OR NOT scheduled
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
-- What users have: live jobs, jobs of the last hour, when the hourly limit frees if it is used up, and whether jobs
-- wait for a limit: these are not counted. Counts stop at the given bounds. Bytes of files are added up with $4,
-- executions that have not ended with $5, GPU seconds since midnight (UTC) with $6.
SELECT
    u.id AS user_id, live.pending, recent.jobs + admitted.jobs AS this_hour,
    CASE
        WHEN recent.jobs + admitted.jobs >= u.most_this_hour
            THEN extract(
                EPOCH FROM least(recent.first_at, admitted.first_at) + interval '1 hour' - now()
            )::double precision
    END AS frees_in_s,
    EXISTS (SELECT FROM limit_waits w WHERE w.user_id = u.id AND w.admitted_at IS NULL) AS waiting,
    CASE
        WHEN u.has_storage_limit THEN (
            SELECT coalesce(sum(f.size), 0)::bigint
            FROM files f
            WHERE f.user_id = u.id AND (f.expires_at IS NULL OR f.expires_at > now())
        )
        ELSE 0
    END AS stored_bytes,
    in_flight.executions AS in_flight,
    CASE WHEN u.counts_gpu_seconds THEN gpu_seconds_today(u.id) ELSE 0 END AS gpu_seconds_today,
    extract(EPOCH FROM date_trunc('day', now(), 'UTC') + interval '1 day' - now())::double precision AS day_ends_in_s
FROM unnest($1::uuid[], $2::integer[], $3::integer[], $4::boolean[], $5::boolean[], $6::boolean[])
    AS u (id, most_pending, most_this_hour, has_storage_limit, counts_executions, counts_gpu_seconds)
CROSS JOIN LATERAL (
    SELECT count(*) AS pending
    FROM (
        SELECT FROM jobs j
        WHERE j.user_id = u.id AND j.finished_at IS NULL AND NOT waited_for_limit(j)
        LIMIT u.most_pending
    ) AS counted
) AS live
CROSS JOIN LATERAL (
    SELECT count(*) AS jobs, min(counted.created_at) AS first_at
    FROM (
        (
            SELECT j.id, j.created_at FROM jobs j
            WHERE
                j.user_id = u.id AND j.finished_at IS NULL AND j.id >= id_at(now() - interval '1 hour')
                AND NOT waited_for_limit(j)
            ORDER BY j.id DESC
            LIMIT u.most_this_hour
        )
        UNION ALL
        (
            SELECT j.id, j.created_at FROM jobs j
            WHERE
                j.user_id = u.id AND j.finished_at IS NOT NULL AND j.id >= id_at(now() - interval '1 hour')
                AND NOT waited_for_limit(j)
            ORDER BY j.id DESC
            LIMIT u.most_this_hour
        )
        ORDER BY id DESC
        LIMIT u.most_this_hour
    ) AS counted
) AS recent
CROSS JOIN LATERAL (
    SELECT count(*) AS jobs, min(w.admitted_at) AS first_at
    FROM limit_waits w
    WHERE
        w.user_id = u.id AND w.admitted_at > now() - interval '1 hour'
        AND (w.deleted OR w.job_id < id_at(now() - interval '1 hour'))
) AS admitted
CROSS JOIN LATERAL (
    SELECT coalesce(sum(j.total - j.completed - j.failed - j.cancelled), 0)::integer AS executions
    FROM jobs j
    WHERE u.counts_executions AND j.user_id = u.id AND j.finished_at IS NULL AND NOT waited_for_limit(j)
) AS in_flight;
