-- A message as any transaction writes one.
INSERT INTO outbox (job_id, user_id, generation, stage, attempt, class)
VALUES ($1, $1, 1, 0, 1, 'low')
