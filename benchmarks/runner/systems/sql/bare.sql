-- name: tables
-- The least that a durable queue with an outbox can store.
CREATE TABLE bare_jobs (
    id uuid PRIMARY KEY,
    user_id uuid NOT NULL,
    state text NOT NULL DEFAULT 'queued',
    created_at timestamptz NOT NULL DEFAULT now(),
    spec json NOT NULL,
    result json
);
CREATE TABLE bare_outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id uuid NOT NULL
);

-- name: insert_one
-- A job and its message in one statement.
WITH stored AS (
    INSERT INTO bare_jobs (id, user_id, spec) VALUES ($1, $2, $3)
    RETURNING id
)
INSERT INTO bare_outbox (job_id) SELECT id FROM stored;

-- name: insert_many
-- Many jobs and their messages in one statement.
WITH stored AS (
    INSERT INTO bare_jobs (id, user_id, spec)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::json[])
    RETURNING id
)
INSERT INTO bare_outbox (job_id) SELECT id FROM stored;

-- name: record_many
-- Many results in one statement.
UPDATE bare_jobs j
SET state = 'completed', result = r.result
FROM unnest($1::uuid[], $2::json[]) AS r (id, result)
WHERE j.id = r.id;
