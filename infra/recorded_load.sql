-- The executions of the last seven days as a load for `beacon simulate --trace`:
-- psql "$DATABASE_URL" --csv -f infra/recorded_load.sql > load.csv
SELECT
    extract(epoch FROM arrived.at - min(arrived.at) OVER ()) AS arrival_s,
    jobs.user_id AS "user",
    jobs.tier AS tier,
    executions.model AS model,
    executions.region AS region,
    executions.run_s AS run_s
FROM executions
JOIN jobs ON jobs.id = executions.job_id
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN executions.stage = 0 THEN jobs.created_at
        -- A later step of a pipeline arrives when the one before it has ended.
        ELSE executions.finished_at
            - make_interval(secs => executions.queued_s + executions.load_s + executions.run_s)
    END AS at
) AS arrived
WHERE executions.state = 'completed' AND jobs.created_at > now() - interval '7 days'
ORDER BY arrival_s;
