-- Forgets messages that are done with: wherever they are, or only those that a given holder has leased; and says
-- to those who watch the jobs that something has happened, as tell.lua does.
-- KEYS 1-5 as in places.inc.lua
-- ARGV 1-3 as in places.inc.lua, 4 holder ('' for any place and holder), 5 the ids (see words.inc.lua)
-- Returns how many were forgotten.
-- include places.inc.lua
-- include moving.inc.lua
-- include words.inc.lua
local ids, anyone = words(ARGV[5]), ARGV[4] == ''
local gone, ended, leased = {}, {}, {}

-- Messages of a lane that one worker has say the same of themselves, so what is said is read once for them all.
local function reading(value)
  local place, holder, _, class, lane = parse(value)
  return { place = place, holder = holder, class = class, lane = lane, count = 0 }
end

for i, value in ipairs(redis.call('HMGET', live, unpack(ids))) do
  local said = value and (leased[value] or reading(value))
  if said and said.holder ~= '' and (anyone or said.holder == ARGV[4]) then
    leased[value], said.count = said, said.count + 1
    gone[#gone + 1], ended[#ended + 1] = ids[i], ids[i]
  elseif said and said.holder == '' and anyone then
    gone[#gone + 1] = ids[i]
    leave(ids[i], said.place, said.class, said.lane)
  end
end
for _, said in pairs(leased) do tally(running, said.lane, -said.count) end
if #ended > 0 then redis.call('ZREM', leases, unpack(ended)) end
if #gone > 0 then redis.call('HDEL', live, unpack(gone)) end
conclude()
for _, id in ipairs(gone) do redis.call('PUBLISH', 'ws:' .. id:sub(1, 32), '') end
return #gone
