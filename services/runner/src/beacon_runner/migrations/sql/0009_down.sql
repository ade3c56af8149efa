ALTER TABLE jobs DROP COLUMN postponed;
