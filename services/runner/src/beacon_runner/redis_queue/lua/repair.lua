-- Restores messages that are missing in the place that the live hash names; counters are not changed.
-- KEYS 1-5 as in layout.inc.lua
-- ARGV 1-3 as in layout.inc.lua, then the ids
-- Returns how many were missing. A leased one without a lease gets an expired one: the reaper returns it.
-- include layout.inc.lua
local function add_if_missing(list, id)
  if redis.call('LPOS', list, id) then return 0 end
  redis.call('LPUSH', list, id)
  return 1
end

local restore = {}
function restore.w(id, class, lane)
  local missing = add_if_missing(list_of(class, lane), id)
  return math.max(missing, add_if_missing(ring_of(class), lane))
end
function restore.f(id, class) return add_if_missing(front_of(class), id) end
function restore.r(id) return redis.call('ZADD', retries, 'NX', now_ms(), id) end
function restore.l(id) return redis.call('ZADD', leases, 'NX', now_ms(), id) end
restore.s, restore.k = restore.r, restore.l

local restored = 0
for i = 4, #ARGV do
  local value = redis.call('HGET', live, ARGV[i])
  if value then
    local place, _, _, class, lane = parse(value)
    restored = restored + restore[place](ARGV[i], class, lane)
  end
end
return restored
