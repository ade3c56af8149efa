-- name: take
-- The oldest messages that no other publisher holds; they are gone when the transaction commits.
-- Those that the express brings are left to it for a second.
-- Not waited for on the disk: what a crash brings back is pushed again, and the queue knows it.
DELETE FROM outbox
USING set_config('synchronous_commit', 'off', true) AS lazy
WHERE id = ANY (
    ARRAY (
        SELECT id
        FROM outbox
        WHERE NOT express OR created_at < now() - interval '1 second'
        ORDER BY id
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    )
)
RETURNING
    id, topic, job_id, user_id, ticket, stage, attempt, class, lane, front, batch, reason,
    extract(EPOCH FROM not_before)::double precision AS not_before;

-- name: forget
-- Remove messages that have arrived; not waited for on the disk, as above.
DELETE FROM outbox
USING set_config('synchronous_commit', 'off', true) AS lazy
WHERE id = ANY ($1::bigint[]);

-- name: lag
-- How many messages wait, counted up to a bound, and for how long the oldest has.
SELECT
    (SELECT count(*) FROM (SELECT FROM outbox LIMIT $1) AS listed) AS waiting,
    (
        SELECT extract(EPOCH FROM now() - created_at)::double precision FROM outbox ORDER BY id LIMIT 1
    ) AS oldest_s;
