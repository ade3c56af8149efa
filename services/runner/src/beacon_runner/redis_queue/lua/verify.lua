-- Compares the number of messages in the live hash with the number in lists and sets.
-- KEYS 1-5 as in layout.inc.lua
-- ARGV 1-3 as in layout.inc.lua, then the classes
-- Returns {messages in the live hash, messages in lanes, fronts, retries and leases}.
-- include layout.inc.lua
local found = redis.call('ZCARD', retries) + redis.call('ZCARD', leases)
local counted = {}
local function count(list)
  if not counted[list] then found = found + redis.call('LLEN', list) end
  counted[list] = true
end
for i = 4, #ARGV do
  count(front_of(ARGV[i]))
  for _, lane in ipairs(redis.call('LRANGE', ring_of(ARGV[i]), 0, -1)) do count(list_of(ARGV[i], lane)) end
end
return { redis.call('HLEN', live), found }
