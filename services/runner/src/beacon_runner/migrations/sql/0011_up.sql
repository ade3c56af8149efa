-- A user's jobs that ended; those that live are in jobs_live. An index of all of them was one more to write for every
-- new job. Unlike it this one needs no room in its pages: an entry is written once.
CREATE INDEX jobs_ended ON jobs (user_id, id) WHERE finished_at IS NOT NULL;
DROP INDEX jobs_of_user;
