-- A message as any transaction writes one.
INSERT INTO outbox (job_id, ticket, stage, attempt, class, lane)
VALUES ($1, 1, 0, 1, 'low', 'lane')
