-- Returns messages that a worker has leased to the front of their lane or of the front list.
-- KEYS 1-5 as in layout.inc.lua
-- ARGV 1-3 as in layout.inc.lua, 4 holder, then the ids in the order in which they were claimed
-- Returns how many were returned.
-- include layout.inc.lua
-- include transfer.inc.lua
local returned = 0
for i = #ARGV, 5, -1 do
  local value = redis.call('HGET', live, ARGV[i])
  if value then
    local place, holder, payload, class, lane = parse(value)
    if holder == ARGV[4] then
      return_first(ARGV[i], place, payload, class, lane)
      returned = returned + 1
    end
  end
end
commit_counters(true)
return returned
