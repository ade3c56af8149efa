-- The order in which live jobs wait, for whoever looks for the first of a class or for all of them by arrival.
-- A claim still writes no indexed column.
CREATE INDEX jobs_by_arrival ON jobs (class, queued_at, id) WHERE finished_at IS NULL;
