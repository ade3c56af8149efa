-- Takes up to n messages from a list and leases them: the least that a claim can do.
-- KEYS 1 waiting LIST, 2 leases ZSET (message -> lease end in ms)
-- ARGV 1 n, 2 lease end in ms
-- Returns the messages.
local taken = redis.call('RPOP', KEYS[1], ARGV[1]) or {}
local scores = {}
for i, message in ipairs(taken) do
  scores[2 * i - 1], scores[2 * i] = ARGV[2], message
end
if #taken > 0 then redis.call('ZADD', KEYS[2], unpack(scores)) end
return taken
