-- Returns messages whose lease has ended to where they came from, the oldest lease first in line.
-- KEYS 1-5 as in places.inc.lua
-- ARGV 1-3 as in places.inc.lua, 4 limit
-- Returns them as `id:stage:attempt:class:lane`.
-- include places.inc.lua
-- include moving.inc.lua
local ended = redis.call('ZRANGEBYSCORE', leases, '-inf', now_ms(), 'LIMIT', 0, ARGV[4])
local texts = {}
for i = #ended, 1, -1 do
  local value = redis.call('HGET', live, ended[i])
  if value then
    local place, _, rest, class, lane = parse(value)
    go_back(ended[i], place, rest, class, lane)
    texts[#texts + 1] = ended[i] .. ':' .. rest
  else redis.call('ZREM', leases, ended[i]) end
end
conclude(true)
return texts
