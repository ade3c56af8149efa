-- name: lock_queue
-- One submission at a time may use the remaining capacity of the queue.
SELECT pg_advisory_xact_lock(hashtextextended('beacon.queue_size', 0));

-- name: live_jobs
-- The number of live jobs, counted up to a bound.
SELECT count(*) FROM (SELECT FROM jobs WHERE finished_at IS NULL LIMIT $1) AS counted;
