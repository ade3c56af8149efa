-- A user's own lane is named by the user's id, and a batch by what the ids of its jobs have in common. Written out, the
-- two were a fifth of a waiting job's row and a third of its message.
-- A claimed row is wider than a waiting one (its worker, its start), so half a page is not enough for the second version
-- of all that are on it: one claim in fifteen touched the indexes.
ALTER TABLE jobs SET (fillfactor = 45);
ALTER TABLE jobs
    ALTER COLUMN lane DROP NOT NULL, -- null is the user's own
    ALTER COLUMN lane DROP DEFAULT,
    ALTER COLUMN lane TYPE text USING nullif(lane, replace(user_id::text, '-', '')),
    ALTER COLUMN batch TYPE boolean USING batch IS NOT NULL,
    ALTER COLUMN batch SET DEFAULT false,
    ALTER COLUMN batch SET NOT NULL;

ALTER TABLE outbox ADD COLUMN user_id uuid;
UPDATE outbox o SET user_id = j.user_id FROM jobs j WHERE j.id = o.job_id;
DELETE FROM outbox WHERE user_id IS NULL; -- their jobs are gone
ALTER TABLE outbox
    ALTER COLUMN user_id SET NOT NULL,
    ALTER COLUMN lane DROP NOT NULL,
    ALTER COLUMN lane TYPE text USING nullif(lane, replace(user_id::text, '-', '')),
    ALTER COLUMN batch TYPE boolean USING batch IS NOT NULL,
    ALTER COLUMN batch SET DEFAULT false,
    ALTER COLUMN batch SET NOT NULL;
