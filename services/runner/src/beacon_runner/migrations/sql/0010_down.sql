DROP INDEX jobs_not_completed;
