-- Set where the process that stored the message brings it to Redis itself: for a second the relay leaves it alone.
ALTER TABLE outbox ADD COLUMN express boolean NOT NULL DEFAULT false;
