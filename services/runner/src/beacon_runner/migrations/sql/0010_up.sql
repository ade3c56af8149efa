-- A user's jobs that ended without being completed: few, and not to be looked for among all that were.
-- Not by state, which every claim changes: these columns change only when something fails or a job ends.
CREATE INDEX jobs_not_completed ON jobs (user_id, id) WHERE finished_at IS NOT NULL AND failed + cancelled > 0;
