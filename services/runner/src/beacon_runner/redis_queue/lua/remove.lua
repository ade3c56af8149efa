-- Removes messages of cancelled jobs that are not leased.
-- KEYS 1-5 as in layout.inc.lua
-- ARGV 1-3 as in layout.inc.lua, then the ids
-- Returns how many were removed; leased ones stay.
-- include layout.inc.lua
-- include transfer.inc.lua
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
commit_counters()
return removed
