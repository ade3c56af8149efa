-- Extends the leases of running requests; one that was lost is restored, also above the limit.
-- KEYS and ARGV 1-3 as in request_use.inc.lua; ARGV 4… requests
-- Returns the number of running requests.
-- include request_use.inc.lua
prune()
for i = 4, #ARGV do hold(ARGV[i]) end
return redis.call('ZCARD', running)
