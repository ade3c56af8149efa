-- Completed executions of the job $1 with an output of $2 random bytes in hexadecimal: ordinals $3, items $4, models $5,
-- regions $6.
INSERT INTO executions (
    job_id, started_at, finished_at, ordinal, queued_s, load_s, run_s, stage, attempt, state, item, model, region,
    actual_region, backend, output
)
SELECT
    $1::uuid, now(), now(), e.ordinal, 1, 0, 1, 0, 1, 'completed', e.item, e.model, e.region, e.region, 'us-1',
    to_json((
        SELECT string_agg(md5(e.ordinal || ':' || part), '') FROM generate_series(1, $2::integer / 32) AS part
    ))
FROM unnest($3::integer[], $4::text[], $5::text[], $6::text[]) AS e (ordinal, item, model, region)
