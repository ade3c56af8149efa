ALTER TABLE outbox DROP COLUMN express;
