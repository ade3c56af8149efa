-- The position of a message. Reads at most 10,000 entries and 200 lanes.
-- KEYS 1-5 as in layout.inc.lua
-- ARGV 1-3 as in layout.inc.lua, 4 id
-- Returns {} when unknown, else {place, class, lane, messages in front, places ahead in the lane or -1 when deep,
--   length of the lane, its first id, its last id, lanes in the ring, lanes read, messages that those serve before it}.
-- include layout.inc.lua
local value = redis.call('HGET', live, ARGV[4])
if not value then return {} end
local place, _, _, class, lane = parse(value)
local list = place == 'f' and front_of(class) or list_of(class, lane)
local length, ring = redis.call('LLEN', list), ring_of(class)
local at = redis.call('LPOS', list, ARGV[4], 'RANK', -1, 'MAXLEN', 10000)
local ahead = at and length - 1 - at or -1

-- The ring is served from its right end: lanes to the right of ours have one turn more before this message.
local turns, others = (at and ahead or length) + 1, 0
local seen = redis.call('LRANGE', ring, -200, -1)
for i = #seen, 1, -1 do
  if seen[i] == lane then turns = turns - 1
  else others = others + math.min(redis.call('LLEN', list_of(class, seen[i])), turns) end
end
return { place, class, lane, redis.call('LLEN', front_of(class)), ahead, length,
  redis.call('LINDEX', list, -1) or '', redis.call('LINDEX', list, 0) or '',
  redis.call('LLEN', ring), #seen, others }
