-- Renews a worker's leases. The worker holds the jobs by its fence in Postgres, so a lease that Redis has
-- lost (it came back empty) or has given up on (it ended, and nobody has taken the message) is restored.
-- KEYS 1-5 as in places.inc.lua
-- ARGV 1-3 as in places.inc.lua, 4 lease in ms, 5 holder, then for each message: id, `stage:attempt:class:lane`
-- Returns three lists of ids: those that somebody else has leased, those that were unknown and are held again,
--   those that were taken back from where they waited.
-- include places.inc.lua
-- include moving.inc.lua
local ends, kept, lost, restored, retaken = now_ms() + ARGV[4], {}, {}, {}, {}

local function hold(id, letter, rest, lane)
  redis.call('HSET', live, id, letter .. ARGV[5] .. ':' .. rest)
  kept[#kept + 1], kept[#kept + 2] = ends, id
  tally(running, lane, 1)
end

for i = 6, #ARGV, 2 do
  local id, value = ARGV[i], redis.call('HGET', live, ARGV[i])
  if not value then
    hold(id, 'l', ARGV[i + 1], ARGV[i + 1]:match('^%d+:%d+:%a+:(.*)$'))
    restored[#restored + 1] = id
  else
    local place, holder, rest, class, lane = parse(value)
    if holder == ARGV[5] then
      kept[#kept + 1], kept[#kept + 2] = ends, id
    elseif holder == '' then
      leave(id, place, class, lane)
      hold(id, (place == 'f' or place == 's') and 'k' or 'l', rest, lane)
      retaken[#retaken + 1] = id
    else
      lost[#lost + 1] = id
    end
  end
end
if #kept > 0 then redis.call('ZADD', leases, unpack(kept)) end
conclude()
return { lost, restored, retaken }
