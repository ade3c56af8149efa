DROP FUNCTION runs_of (uuid);
ALTER TABLE credit_ledger DROP COLUMN ran_before;
