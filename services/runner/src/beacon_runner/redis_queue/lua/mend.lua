-- Puts messages back into the place that the live hash names, if they are missing there; counters are not touched.
-- KEYS 1-5 as in places.inc.lua
-- ARGV 1-3 as in places.inc.lua, then the ids
-- Returns how many were missing. One without a lease gets one that has ended: the reaper returns it.
-- include places.inc.lua
local function into_list(list, id)
  if redis.call('LPOS', list, id) then return 0 end
  redis.call('LPUSH', list, id)
  return 1
end

local mend = {}
function mend.w(id, class, lane)
  local missing = into_list(list_of(class, lane), id)
  return math.max(missing, into_list(ring_of(class), lane))
end
function mend.f(id, class) return into_list(front_of(class), id) end
function mend.r(id) return redis.call('ZADD', retries, 'NX', now_ms(), id) end
function mend.l(id) return redis.call('ZADD', leases, 'NX', now_ms(), id) end
mend.s, mend.k = mend.r, mend.l

local mended = 0
for i = 4, #ARGV do
  local value = redis.call('HGET', live, ARGV[i])
  if value then
    local place, _, _, class, lane = parse(value)
    mended = mended + mend[place](ARGV[i], class, lane)
  end
end
return mended
