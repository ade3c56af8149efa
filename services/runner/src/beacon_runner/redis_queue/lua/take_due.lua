-- Moves retries whose moment has come to the end of their lane, or to the front when that was paid.
-- KEYS 1-5 as in places.inc.lua
-- ARGV 1-3 as in places.inc.lua, 4 number of least_loaded lanes, 5 limit
-- Returns how many were moved.
-- include places.inc.lua
-- include moving.inc.lua
-- include choosing.inc.lua
local due = redis.call('ZRANGEBYSCORE', retries, '-inf', now_ms(), 'LIMIT', 0, ARGV[5])
for _, id in ipairs(due) do
  redis.call('ZREM', retries, id)
  local value = redis.call('HGET', live, id)
  if value then
    local place, _, rest, class, lane = parse(value)
    if lane == '' then
      lane = choose(tonumber(ARGV[4]), '')
      rest = rest .. lane
    end
    if place == 's' then enter_front('LPUSH', id, rest, class, lane)
    else enter_lane('LPUSH', id, rest, class, lane) end
  end
end
conclude()
return #due
