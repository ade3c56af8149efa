-- Removes messages that are done, wherever they are, or only those that a given holder has leased; notifies watchers.
-- KEYS 1-5 as in layout.inc.lua
-- ARGV 1-3 as in layout.inc.lua, 4 holder ('' for any place and holder), 5 the ids (args.inc.lua)
-- Returns how many were removed.
-- include layout.inc.lua
-- include transfer.inc.lua
-- include args.inc.lua
local ids, holder = unpack_args(ARGV[5]), ARGV[4]
local removed, leased = {}, {}
for i, value in ipairs(redis.call('HMGET', live, unpack(ids))) do
  local place, held_by, _, class, lane = parse(value or '')
  if place and (holder == '' or held_by == holder) then
    removed[#removed + 1] = ids[i]
    if held_by ~= '' then
      leased[#leased + 1] = ids[i]
      add(running, lane, -1)
    else leave(ids[i], place, class, lane) end
  end
end
if #leased > 0 then redis.call('ZREM', leases, unpack(leased)) end
if #removed > 0 then redis.call('HDEL', live, unpack(removed)) end
commit_counters()
for _, id in ipairs(removed) do redis.call('PUBLISH', 'ws:' .. id:sub(1, 32), '') end
return #removed
