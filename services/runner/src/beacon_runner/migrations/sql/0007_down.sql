DROP INDEX jobs_by_arrival;
