-- $1 job, $2 how many, $3 letters of each: a job that waits with much to tell.
WITH told AS (
    UPDATE jobs SET event_seq = event_seq + $2
    WHERE id = $1
    RETURNING event_seq
)
INSERT INTO job_events (job_id, seq, events)
SELECT
    $1, told.event_seq - $2 + number,
    json_build_array(json_build_object('type', 'WAITING', 'data', json_build_object('letters', repeat('x', $3))))
FROM told, generate_series(1, $2) AS number;
