-- A job and its message as version 0011 wrote them.
WITH stored AS (
    INSERT INTO jobs (id, user_id, total, kind, tier, class, original_class, spec, lane, batch)
    VALUES ($1, $2, 1, 'generation', 'free', 'low', 'low', '{}', $3, $4)
)
INSERT INTO outbox (job_id, ticket, stage, attempt, class, lane, batch)
VALUES ($1, 1, 0, 1, 'low', $3, $4);
