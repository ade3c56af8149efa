-- How many rows of jobs were read so far.
SELECT (idx_tup_fetch + seq_tup_read)::integer FROM pg_stat_user_tables WHERE relname = 'jobs';
