-- The same of jobs and of their messages, as long as every job has one.
SELECT j.lane, j.batch, o.lane, o.batch
FROM jobs j
JOIN outbox o ON o.job_id = j.id
ORDER BY j.id;
