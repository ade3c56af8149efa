-- Says to those who watch that something has happened to these jobs; what it was is in Postgres.
-- KEYS 1 any key of the queues, so that a cluster knows where to run this
-- ARGV ids of jobs
-- Returns how many heard it.
local heard = 0
for _, id in ipairs(ARGV) do heard = heard + redis.call('PUBLISH', 'ws:' .. id, '') end
return heard
