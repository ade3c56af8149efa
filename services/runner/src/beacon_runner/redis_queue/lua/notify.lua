-- Notifies the watchers of jobs that something changed; the change itself is in Postgres.
-- KEYS 1 any key of the queues: selects the node of a cluster
-- ARGV ids of jobs
-- Returns the number of subscribers that were notified.
local notified = 0
for _, id in ipairs(ARGV) do notified = notified + redis.call('PUBLISH', 'ws:' .. id, '') end
return notified
