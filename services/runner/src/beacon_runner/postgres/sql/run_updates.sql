-- name: record
-- What backends have reported of runs that go on: $3 has an object per execution. $1 and $2 are their jobs, which the
-- caller has locked, and how many events each gets. `number`: of an execution's progress among those of its job; null if
-- it is unchanged. The event before it is replaced.
WITH numbered AS (
    UPDATE jobs j
    SET event_seq = j.event_seq + c.events
    FROM unnest($1::uuid[], $2::integer[]) AS c (id, events)
    WHERE j.id = c.id
    RETURNING j.id, j.event_seq - c.events AS before
)
UPDATE executions e
SET
    remote = r.remote,
    progress_at = CASE WHEN r.number IS NULL THEN e.progress_at ELSE now() END,
    progress_seq = CASE WHEN r.number IS NULL THEN e.progress_seq ELSE n.before + r.number END,
    progress = CASE WHEN r.number IS NULL THEN e.progress ELSE r.progress END,
    preview = CASE WHEN r.number IS NULL THEN e.preview ELSE r.preview END
FROM
    json_to_recordset($3::json) AS r (
        job_id uuid, stage smallint, item text, model text, region text, attempt smallint, remote json, number integer,
        progress json, preview text
    )
    JOIN numbered n ON n.id = r.job_id
WHERE
    e.job_id = r.job_id AND e.stage = r.stage AND e.item = r.item AND e.model = r.model AND e.region = r.region
    AND e.attempt = r.attempt AND e.state IN ('pending', 'queued', 'running');
