-- The state of all queues at one moment.
-- KEYS 1-5 as in layout.inc.lua, 6 dead LIST
-- ARGV 1-3 as in layout.inc.lua, 4 how many lanes to list for each class, then the classes
-- Returns {retries, dead, leases, expired leases, class rows}; a row is
--   {class, waiting, in front, paused 0/1, lanes, {lane, waiting in it, running of it, …}}.
-- include layout.inc.lua
local rows = {}
for i = 5, #ARGV do
  local class, lanes = ARGV[i], {}
  for _, lane in ipairs(redis.call('LRANGE', ring_of(class), -tonumber(ARGV[4]), -1)) do
    lanes[#lanes + 1] = lane
    lanes[#lanes + 1] = redis.call('LLEN', list_of(class, lane))
    lanes[#lanes + 1] = tonumber(redis.call('GET', prefix .. 'queue:' .. lane .. ':running') or '0')
  end
  rows[#rows + 1] = { class, tonumber(redis.call('HGET', waiting, class) or '0'),
    redis.call('LLEN', front_of(class)), redis.call('SISMEMBER', paused, class),
    redis.call('LLEN', ring_of(class)), lanes }
end
return { redis.call('ZCARD', retries), redis.call('LLEN', KEYS[6]), redis.call('ZCARD', leases),
  redis.call('ZCOUNT', leases, '-inf', now_ms()), rows }
