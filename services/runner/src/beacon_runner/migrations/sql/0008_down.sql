ALTER INDEX jobs_pkey RESET (fillfactor);
ALTER INDEX jobs_of_user RESET (fillfactor);
