-- Returns messages whose lease has expired to the front of their lane, the oldest lease first.
-- KEYS 1-5 as in layout.inc.lua
-- ARGV 1-3 as in layout.inc.lua, 4 limit
-- Returns the messages as `id:stage:attempt:class:lane`.
-- include layout.inc.lua
-- include transfer.inc.lua
local expired = redis.call('ZRANGEBYSCORE', leases, '-inf', now_ms(), 'LIMIT', 0, ARGV[4])
local texts = {}
for i = #expired, 1, -1 do
  local value = redis.call('HGET', live, expired[i])
  if value then
    local place, _, payload, class, lane = parse(value)
    return_first(expired[i], place, payload, class, lane)
    texts[#texts + 1] = expired[i] .. ':' .. payload
  else redis.call('ZREM', leases, expired[i]) end
end
commit_counters(true)
return texts
