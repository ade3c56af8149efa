-- $1 job, $2 number, $3 characters of each: a waiting job with many events.
WITH numbered AS (
    UPDATE jobs SET event_seq = event_seq + $2
    WHERE id = $1
    RETURNING event_seq
)
INSERT INTO job_events (job_id, seq, events)
SELECT
    $1, numbered.event_seq - $2 + number,
    json_build_array(json_build_object('type', 'WAITING', 'data', json_build_object('text', repeat('x', $3))))
FROM numbered, generate_series(1, $2) AS number;
