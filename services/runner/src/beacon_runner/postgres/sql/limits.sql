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

-- name: lock_queue
-- One submission at a time may use the remaining capacity of the queue.
SELECT pg_advisory_xact_lock(hashtextextended('beacon.queue_size', 0));

-- name: live_jobs
-- The number of live jobs, counted up to a bound.
SELECT count(*) FROM (SELECT FROM jobs WHERE finished_at IS NULL LIMIT $1) AS counted;
