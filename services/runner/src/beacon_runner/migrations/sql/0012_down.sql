ALTER TABLE outbox
    ALTER COLUMN batch DROP NOT NULL,
    ALTER COLUMN batch DROP DEFAULT,
    ALTER COLUMN batch TYPE text USING CASE WHEN batch THEN left(replace(job_id::text, '-', ''), 27) END,
    ALTER COLUMN lane TYPE text USING coalesce(lane, replace(user_id::text, '-', '')),
    ALTER COLUMN lane SET NOT NULL;
ALTER TABLE outbox DROP COLUMN user_id;

ALTER TABLE jobs SET (fillfactor = 50);
ALTER TABLE jobs
    ALTER COLUMN batch DROP NOT NULL,
    ALTER COLUMN batch DROP DEFAULT,
    ALTER COLUMN batch TYPE text USING CASE WHEN batch THEN left(replace(id::text, '-', ''), 27) END,
    ALTER COLUMN lane TYPE text USING coalesce(lane, replace(user_id::text, '-', '')),
    ALTER COLUMN lane SET DEFAULT '',
    ALTER COLUMN lane SET NOT NULL;
