-- Moves due retries to the end of their lane, or to the front list after a paid skip.
-- KEYS 1-5 as in layout.inc.lua
-- ARGV 1-3 as in layout.inc.lua, 4 number of least_loaded lanes, 5 limit
-- Returns how many were moved.
-- include layout.inc.lua
-- include transfer.inc.lua
-- include lane_choice.inc.lua
local due = redis.call('ZRANGEBYSCORE', retries, '-inf', now_ms(), 'LIMIT', 0, ARGV[5])
for _, id in ipairs(due) do
  redis.call('ZREM', retries, id)
  local value = redis.call('HGET', live, id)
  if value then
    local place, _, payload, class, lane = parse(value)
    if lane == '' then
      lane = choose_lane(tonumber(ARGV[4]), '')
      payload = payload .. lane
    end
    if place == 's' then enter_front('LPUSH', id, payload, class, lane)
    else enter_lane('LPUSH', id, payload, class, lane) end
  end
end
commit_counters()
return #due
