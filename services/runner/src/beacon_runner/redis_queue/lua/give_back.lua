-- Returns messages that a worker has leased to where they came from, before the others there.
-- KEYS 1-5 as in places.inc.lua
-- ARGV 1-3 as in places.inc.lua, 4 holder, then the ids in the order in which they were claimed
-- Returns how many went back.
-- include places.inc.lua
-- include moving.inc.lua
local returned = 0
for i = #ARGV, 5, -1 do
  local value = redis.call('HGET', live, ARGV[i])
  if value then
    local place, holder, rest, class, lane = parse(value)
    if holder == ARGV[4] then
      go_back(ARGV[i], place, rest, class, lane)
      returned = returned + 1
    end
  end
end
conclude(true)
return returned
