-- Recording the end of a job gives it new entries here, because the partial indexes lose it. With room beside the old
-- entry no page has to be split for that.
ALTER INDEX jobs_pkey SET (fillfactor = 45);
ALTER INDEX jobs_of_user SET (fillfactor = 45);
