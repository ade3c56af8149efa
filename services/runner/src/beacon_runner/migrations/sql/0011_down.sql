CREATE INDEX jobs_of_user ON jobs (user_id, id) WITH (fillfactor = 45);
DROP INDEX jobs_ended;
