-- Forgets messages that are done with: wherever they are, or only those that a given holder has leased; and says
-- to those who watch the jobs that something has happened, as tell.lua does.
-- KEYS 1-5 as in places.inc.lua
-- ARGV 1-3 as in places.inc.lua, 4 holder ('' for any place and holder), 5 the ids (see words.inc.lua)
-- Returns how many were forgotten.
-- include places.inc.lua
-- include moving.inc.lua
-- include words.inc.lua
local ids, anyone = words(ARGV[5]), ARGV[4] == ''
local gone, ended = {}, {}
for i, value in ipairs(redis.call('HMGET', live, unpack(ids))) do
  if value then
    local place, holder, _, class, lane = parse(value)
    if holder ~= '' and (anyone or holder == ARGV[4]) then
      gone[#gone + 1], ended[#ended + 1] = ids[i], ids[i]
      tally(running, lane, -1)
    elseif holder == '' and anyone then
      gone[#gone + 1] = ids[i]
      leave(ids[i], place, class, lane)
    end
  end
end
if #ended > 0 then redis.call('ZREM', leases, unpack(ended)) end
if #gone > 0 then redis.call('HDEL', live, unpack(gone)) end
conclude()
for _, id in ipairs(gone) do redis.call('PUBLISH', 'ws:' .. id:match('^%x+'), '') end
return #gone
