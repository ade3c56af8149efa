-- name: take
-- The oldest messages that no other publisher holds; deleted when the transaction commits.
-- The commit does not wait for the disk: a message that a crash restores is pushed again, and the queue ignores it.
DELETE FROM outbox
USING set_config('synchronous_commit', 'off', true) AS not_durable
WHERE id = ANY (
    ARRAY (
        SELECT id
        FROM outbox
        ORDER BY id
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    )
)
RETURNING
    id, topic, job_id, user_id, generation, stage, attempt, class, lane, front, batch,
    extract(EPOCH FROM not_before)::double precision AS not_before;

-- name: delete
-- Delete published messages; not durable, for the same reason.
DELETE FROM outbox
USING set_config('synchronous_commit', 'off', true) AS not_durable
WHERE id = ANY ($1::bigint[]);

-- name: lag
-- How many messages wait, counted up to a bound, and the age of the oldest.
SELECT
    (SELECT count(*) FROM (SELECT FROM outbox LIMIT $1) AS listed) AS waiting,
    (
        SELECT extract(EPOCH FROM now() - created_at)::double precision FROM outbox ORDER BY id LIMIT 1
    ) AS oldest_s;
