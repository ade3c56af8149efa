-- Renews a worker's leases. The worker holds the jobs by its fence in Postgres, so a lease that Redis has
-- lost (it came back empty) or has given up on (it ended, and nobody has taken the message) is restored.
-- KEYS 1-5 as in places.inc.lua
-- ARGV 1-3 as in places.inc.lua, 4 lease in ms, 5 holder, then for each message: id, `stage:attempt:class:lane`
-- Returns the ids that somebody else has leased.
-- include places.inc.lua
local ends, lost = now_ms() + ARGV[4], {}

local function hold(id, letter, rest, lane)
  redis.call('HSET', live, id, letter .. ARGV[5] .. ':' .. rest)
  redis.call('ZADD', leases, ends, id)
  count(lane, 'running', 1)
end

for i = 6, #ARGV, 2 do
  local id, value = ARGV[i], redis.call('HGET', live, ARGV[i])
  if not value then
    hold(id, 'l', ARGV[i + 1], ARGV[i + 1]:match('^%d+:%d+:%a+:(.*)$'))
  else
    local place, holder, rest, class, lane = parse(value)
    if holder == ARGV[5] then
      redis.call('ZADD', leases, ends, id)
    elseif holder == '' then
      leave(id, place, class, lane)
      hold(id, place == 'f' and 'k' or 'l', rest, lane)
    else
      lost[#lost + 1] = id
    end
  end
end
return lost
