-- Renews a worker's leases. The worker holds the jobs by its fence in Postgres, so a lease is restored that Redis has
-- lost (it was emptied) or that has expired while no other worker took the message.
-- KEYS 1-5 as in layout.inc.lua
-- ARGV 1-3 as in layout.inc.lua, 4 lease in ms, 5 holder, then for each message: id, `stage:attempt:class:lane`
-- Returns three lists of ids: leased by another worker; missing and restored;
--   waiting and leased again.
-- include layout.inc.lua
-- include transfer.inc.lua
local lease_end, kept, lost, restored, retaken = now_ms() + ARGV[4], {}, {}, {}, {}

local function hold(id, letter, payload, lane)
  redis.call('HSET', live, id, letter .. ARGV[5] .. ':' .. payload)
  kept[#kept + 1], kept[#kept + 2] = lease_end, id
  add(running, lane, 1)
end

for i = 6, #ARGV, 2 do
  local id, value = ARGV[i], redis.call('HGET', live, ARGV[i])
  if not value then
    hold(id, 'l', ARGV[i + 1], ARGV[i + 1]:match('^%d+:%d+:%a+:(.*)$'))
    restored[#restored + 1] = id
  else
    local place, holder, payload, class, lane = parse(value)
    if holder == ARGV[5] then
      kept[#kept + 1], kept[#kept + 2] = lease_end, id
    elseif holder == '' then
      leave(id, place, class, lane)
      hold(id, (place == 'f' or place == 's') and 'k' or 'l', payload, lane)
      retaken[#retaken + 1] = id
    else
      lost[#lost + 1] = id
    end
  end
end
if #kept > 0 then redis.call('ZADD', leases, unpack(kept)) end
commit_counters()
return { lost, restored, retaken }
