-- Releases slots and places in the queue; freed slots are granted to the first tokens of the queue.
-- KEYS and ARGV 1-4 as in slots.inc.lua; ARGV 5… tokens
-- Returns the number of known tokens.
-- include slots.inc.lua
local released = 0
for i = 5, #ARGV do
  released = released + redis.call('ZREM', slots, ARGV[i]) + redis.call('ZREM', queue, ARGV[i])
  redis.call('ZREM', alive, ARGV[i])
end
prune()
grant_free()
return released
