-- Included by every operation on the requests of one user.
-- KEYS 1 limits:{user}:{name}:started  ZSET  request -> start (ms)
--      2 limits:{user}:{name}:running  ZSET  request -> lease end (ms)
-- ARGV 1 window (ms), 2 lease (ms), 3 requests that may start per window, 0 for any number
local started, running = KEYS[1], KEYS[2]
local window, lease, per_window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Times in the future exist only after the server's clock was set back; they count from now on.
local function clamp(key, latest)
  for _, request in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. latest, '+inf')) do
    redis.call('ZADD', key, latest, request)
  end
end

local function prune()
  redis.call('ZREMRANGEBYSCORE', started, '-inf', now - window)
  redis.call('ZREMRANGEBYSCORE', running, '-inf', now)
  clamp(started, now)
  clamp(running, now + lease)
end

local function start(request)
  redis.call('ZADD', started, now, request)
  redis.call('PEXPIRE', started, window)
end

local function hold(request)
  redis.call('ZADD', running, now + lease, request)
  redis.call('PEXPIRE', running, lease)
end

local function leaves_in_ms(index)
  local found = redis.call('ZRANGE', started, index, index, 'WITHSCORES')
  return found[2] and math.max(0, tonumber(found[2]) + window - now) or 0
end

-- Returns { started within the window, running, ms until one more may start, ms until the window is empty }.
local function use()
  local count = redis.call('ZCARD', started)
  local full = per_window > 0 and count >= per_window
  local room_in_ms = full and leaves_in_ms(count - per_window) or 0
  return { count, redis.call('ZCARD', running), room_in_ms, leaves_in_ms(-1) }
end
