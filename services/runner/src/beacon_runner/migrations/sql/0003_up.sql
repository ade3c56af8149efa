ALTER TABLE credit_ledger ADD COLUMN ran_before integer NOT NULL DEFAULT 0; -- runs of the job when it was paid for

-- How many runs on GPUs a job has had, whatever came of them. It never falls: attempts keep what is tried again.
CREATE FUNCTION runs_of(job uuid) RETURNS bigint
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN (
    SELECT count(*) FROM executions e WHERE e.job_id = job AND (e.state = 'completed' OR e.backend IS NOT NULL)
) + (
    SELECT count(*) FROM attempts a WHERE a.job_id = job AND a.backend IS NOT NULL
);
