-- Keeps slots and places for another lease. A lost slot is acquired again if there is room.
-- KEYS and ARGV 1-4 as in slots.inc.lua; ARGV 5 number of tokens that hold slots, 6… tokens, holders first
-- Returns status: see slots.inc.lua.
-- include slots.inc.lua
local tokens, holders = { unpack(ARGV, 6) }, tonumber(ARGV[5])
for i = 1, holders do
  if redis.call('ZSCORE', slots, tokens[i]) then hold(tokens[i]) end
end
prune()
for i = 1, holders do
  if not redis.call('ZSCORE', slots, tokens[i]) and redis.call('ZCARD', slots) < cap then hold(tokens[i]) end
end
for i = holders + 1, #tokens do enqueue(tokens[i]) end
grant_free()
return status(tokens)
