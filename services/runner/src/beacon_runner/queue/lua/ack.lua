-- Forgets messages that are done with: wherever they are, or only those that a given holder has leased.
-- KEYS 1-5 as in places.inc.lua
-- ARGV 1-3 as in places.inc.lua, 4 holder ('' for any place and holder), then the ids
-- Returns how many were forgotten.
-- include places.inc.lua
local ids = { unpack(ARGV, 5) }
local gone, ended, lanes = {}, {}, {}
for i, value in ipairs(redis.call('HMGET', live, unpack(ids))) do
  if value then
    local place, holder, _, class, lane = parse(value)
    local leased = place == 'l' or place == 'k'
    if leased and (ARGV[4] == '' or ARGV[4] == holder) then
      gone[#gone + 1], ended[#ended + 1] = ids[i], ids[i]
      lanes[lane] = (lanes[lane] or 0) + 1
    elseif not leased and ARGV[4] == '' then
      gone[#gone + 1] = ids[i]
      leave(ids[i], place, class, lane)
    end
  end
end
if #ended > 0 then redis.call('ZREM', leases, unpack(ended)) end
for lane, n in pairs(lanes) do count(lane, 'running', -n) end
if #gone > 0 then redis.call('HDEL', live, unpack(gone)) end
return #gone
