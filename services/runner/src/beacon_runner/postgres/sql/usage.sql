-- name: roll_up
-- Move up to $1 records into the hourly sums: one transaction, so that each counts once. Concurrent calls take different
-- records; sums are locked in one order. Returns what was added, for the metrics.
WITH taken AS (
    DELETE FROM usage_records
    WHERE id IN (SELECT id FROM usage_records ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)
    RETURNING *
), added AS (
    INSERT INTO usage_hourly AS h (
        hour, user_id, key_id, model, region, tags, runs, failed, queued_s, load_s, run_s, tokens_in, tokens_out,
        output_bytes
    )
    SELECT
        date_trunc('hour', at, 'UTC') AS hour, user_id, key_id, model, region, tags, sum(runs), sum(failed),
        sum(queued_s), sum(load_s), sum(run_s), sum(tokens_in), sum(tokens_out), sum(output_bytes)
    FROM taken
    GROUP BY 1, 2, 3, 4, 5, 6
    ORDER BY 1, 2, 3, 4, 5, 6
    ON CONFLICT ON CONSTRAINT usage_hourly_key DO UPDATE
    SET
        runs = h.runs + EXCLUDED.runs,
        failed = h.failed + EXCLUDED.failed,
        queued_s = h.queued_s + EXCLUDED.queued_s,
        load_s = h.load_s + EXCLUDED.load_s,
        run_s = h.run_s + EXCLUDED.run_s,
        tokens_in = h.tokens_in + EXCLUDED.tokens_in,
        tokens_out = h.tokens_out + EXCLUDED.tokens_out,
        output_bytes = h.output_bytes + EXCLUDED.output_bytes
)
SELECT
    model, region, sum(runs)::bigint AS runs, sum(failed)::bigint AS failed, sum(load_s + run_s) AS gpu_s,
    sum(tokens_in)::bigint AS tokens_in, sum(tokens_out)::bigint AS tokens_out, count(*) AS records
FROM taken
GROUP BY model, region;

-- name: sums
-- The use of one user ($1) or of all from $2 up to $3, grouped by the names in $4. Hourly sums and records that are not
-- rolled up yet: one snapshot, so that nothing is missing or counted twice.
WITH used AS (
    SELECT
        hour, user_id, key_id, model, region, tags, runs, failed, queued_s, load_s, run_s, tokens_in, tokens_out,
        output_bytes
    FROM usage_hourly
    WHERE hour >= $2 AND hour < $3 AND ($1::uuid IS NULL OR user_id = $1)
    UNION ALL
    SELECT
        date_trunc('hour', at, 'UTC'), user_id, key_id, model, region, tags, runs, failed, queued_s, load_s, run_s,
        tokens_in, tokens_out, output_bytes
    FROM usage_records
    WHERE at >= $2 AND at < $3 AND ($1::uuid IS NULL OR user_id = $1)
)
SELECT
    CASE WHEN 'hour' = ANY ($4) THEN u.hour WHEN 'day' = ANY ($4) THEN date_trunc('day', u.hour, 'UTC') END AS period,
    CASE WHEN 'user' = ANY ($4) THEN u.user_id END AS user_id,
    CASE WHEN 'key' = ANY ($4) THEN u.key_id END AS key_id,
    CASE WHEN 'model' = ANY ($4) THEN u.model END AS model,
    CASE WHEN 'region' = ANY ($4) THEN u.region END AS region,
    t.tag,
    sum(u.runs)::bigint AS runs,
    sum(u.failed)::bigint AS failed,
    sum(u.queued_s) AS queued_s,
    sum(u.load_s) AS load_s,
    sum(u.run_s) AS run_s,
    sum(u.tokens_in)::bigint AS tokens_in,
    sum(u.tokens_out)::bigint AS tokens_out,
    sum(u.output_bytes)::bigint AS output_bytes
FROM used u
LEFT JOIN LATERAL unnest(u.tags) AS t (tag) ON 'tag' = ANY ($4::text[])
GROUP BY 1, 2, 3, 4, 5, 6
HAVING count(*) > 0
ORDER BY 1, 2, 3, 4, 5, 6
LIMIT $5;

-- name: today
-- The GPU seconds of a user since midnight (UTC), and when the day ends.
SELECT
    gpu_seconds_today($1),
    extract(EPOCH FROM date_trunc('day', now(), 'UTC') + interval '1 day' - now())::double precision AS day_ends_in_s;

-- name: add_interactive
-- Record runs of /v1.
INSERT INTO usage_records (
    user_id, key_id, model, region, queued_s, load_s, run_s, tokens_in, tokens_out, failed
)
SELECT
    user_id, key_id, model, region, queued_s, load_s, run_s, tokens_in, tokens_out, failed::integer
FROM unnest(
    $1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::double precision[], $6::double precision[],
    $7::double precision[], $8::bigint[], $9::bigint[], $10::boolean[]
) AS run (user_id, key_id, model, region, queued_s, load_s, run_s, tokens_in, tokens_out, failed);
