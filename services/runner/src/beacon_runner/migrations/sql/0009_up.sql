-- How a job that the router could not take was last postponed; null when that is over. It tells whether the reason
-- is news, and how long to wait. Almost always null, which costs a row nothing.
ALTER TABLE jobs ADD COLUMN postponed json;
