-- name: unsent
-- The executions of the current stages of live jobs that have not ended and are at no router, by model and region: all
-- that are planned, without those whose rows are not pending. Reads all live jobs, so callers keep its result for
-- seconds. Jobs of disabled users and those that start at a later time are not counted.
WITH live AS MATERIALIZED (
    SELECT j.id, j.kind, j.stage, j.fence, j.spec
    FROM jobs j
    WHERE
        j.finished_at IS NULL AND j.state <> 'scheduled'
        AND NOT EXISTS (SELECT FROM users u WHERE u.id = j.user_id AND u.disabled_at IS NOT NULL)
), counted AS (
    SELECT spec ->> 'model' AS model, spec ->> 'region' AS region, count(*) AS executions
    FROM live
    WHERE kind = 'generation'
    GROUP BY 1, 2
    UNION ALL
    SELECT spec #>> ARRAY ['steps', stage::text, 'model'], spec #>> ARRAY ['steps', stage::text, 'region'], count(*)
    FROM live
    WHERE kind = 'pipeline'
    GROUP BY 1, 2
    UNION ALL
    SELECT t.target ->> 0, r.region, sum(json_array_length(live.spec -> 'questions'))
    FROM live
    CROSS JOIN LATERAL json_array_elements(live.spec -> 'targets') AS t (target)
    CROSS JOIN LATERAL json_array_elements_text(t.target -> 1) AS r (region)
    WHERE live.kind = 'matrix'
    GROUP BY 1, 2
    UNION ALL
    SELECT e.model, e.region, -count(*)
    FROM live
    JOIN executions e ON e.job_id = live.id AND e.stage = live.stage
    WHERE live.fence > 0 AND e.state <> 'pending'
    GROUP BY 1, 2
)
SELECT model, region, sum(executions)::bigint AS executions
FROM counted
GROUP BY model, region
HAVING sum(executions) > 0;
