-- Takes a slot for each token, or a place at the end of the queue; a token that has either keeps it.
-- KEYS and ARGV 1-4 as in slots.inc.lua; ARGV 5… tokens
-- Returns status: see slots.inc.lua.
-- include slots.inc.lua
local tokens = { unpack(ARGV, 5) }
prune()
local before = redis.call('ZCARD', queue)
for _, token in ipairs(tokens) do enqueue(token) end
grant_free()
if redis.call('ZCARD', queue) > before then redis.call('PUBLISH', channel, 'wanted') end
return status(tokens)
