-- Forgets messages that nobody has started on: a cancelled job leaves the queue at once.
-- KEYS 1-5 as in places.inc.lua
-- ARGV 1-3 as in places.inc.lua, then the ids
-- Returns how many were removed; those that are leased stay.
-- include places.inc.lua
-- include moving.inc.lua
local removed = 0
for i = 4, #ARGV do
  local value = redis.call('HGET', live, ARGV[i])
  if value then
    local place, _, _, class, lane = parse(value)
    if place ~= 'l' and place ~= 'k' then
      leave(ARGV[i], place, class, lane)
      redis.call('HDEL', live, ARGV[i])
      removed = removed + 1
    end
  end
end
conclude()
return removed
