-- All jobs were submitted, and admitted, so many minutes earlier; their ids follow, because they contain the time.
WITH aged AS (
    UPDATE jobs
    SET
        id = (
            lpad(to_hex(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint - $1::bigint * 60000), 12, '0')
            || substr(replace(id::text, '-', ''), 13)
        )::uuid,
        created_at = created_at - $1 * interval '1 minute',
        queued_at = queued_at - $1 * interval '1 minute'
)
UPDATE limit_waits
SET
    job_id = (
        lpad(to_hex(('x' || left(replace(job_id::text, '-', ''), 12))::bit(48)::bigint - $1 * 60000), 12, '0')
        || substr(replace(job_id::text, '-', ''), 13)
    )::uuid,
    admitted_at = admitted_at - $1 * interval '1 minute'
