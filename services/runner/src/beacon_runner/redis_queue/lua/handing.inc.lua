-- Used by push and claim: a message that nobody is before goes to a pool that waits, as if that claimed it now.
-- idle ZSET: `worker\npool\nclass,class` -> when it last claimed in ms and got less than it asked for.
-- Whoever does not listen here is gone, and whoever has not claimed for a while may be: neither gets anything.
local WAITS_MS, MOST_LOOKED_AT = 2500, 20

local function note_idle(idle, one, waits)
  if waits then redis.call('ZADD', idle, now_ms(), one) else redis.call('ZREM', idle, one) end
  redis.call('ZREMRANGEBYSCORE', idle, '-inf', now_ms() - WAITS_MS)
end

-- One that serves this class first, or else any that serves it.
local function find_idle(idle, class, now)
  local found
  local fresh = redis.call('ZREVRANGEBYSCORE', idle, '+inf', now - WAITS_MS, 'LIMIT', 0, MOST_LOOKED_AT)
  for _, one in ipairs(fresh) do
    local worker, classes = one:match('^([^\n]*)\n[^\n]*\n(.*)$')
    local place = (',' .. classes .. ','):find(',' .. class .. ',', 1, true)
    if place and redis.call('PUBSUB', 'NUMSUB', channel .. ':' .. worker)[2] == 0 then
      redis.call('ZREM', idle, one)
    elseif place == 1 then return one
    else found = found or (place and one) end
  end
  return found
end

local function hand_over(idle, lease_ms, id, rest, class, lane, grant)
  if next(by_class) or redis.call('EXISTS', waiting) == 1 then return false end
  if redis.call('SISMEMBER', paused, class) == 1 then return false end
  local now = now_ms()
  local one = find_idle(idle, class, now)
  if not one then return false end
  local worker, pool = one:match('^([^\n]*)\n([^\n]*)')
  redis.call('ZREM', idle, one)
  redis.call('HSET', live, id, 'l' .. worker .. ':' .. rest)
  redis.call('ZADD', leases, now + lease_ms, id)
  redis.call('INCR', prefix .. 'queue:' .. lane .. ':running')
  local told = pool .. '\n' .. id .. ':' .. rest
  redis.call('PUBLISH', channel .. ':' .. worker, grant == '' and told or told .. '\n' .. grant)
  return true
end
