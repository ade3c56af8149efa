-- Everything that a time decides happened so many hours earlier.
WITH jobs_earlier AS (
    UPDATE jobs
    SET
        next_attempt_at = next_attempt_at - $1 * interval '1 hour',
        not_before = not_before - $1 * interval '1 hour',
        expires_at = expires_at - $1 * interval '1 hour'
), starts_earlier AS (
    UPDATE scheduled_starts SET starts_at = starts_at - $1 * interval '1 hour'
)
UPDATE limit_waits SET admitted_at = admitted_at - $1 * interval '1 hour'
