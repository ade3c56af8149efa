-- Shared by acquire, renew and release.
-- KEYS 1 conc:{name}        ZSET  token that holds a slot -> lease end (ms)
--      2 conc:{name}:queue  ZSET  waiting token -> place in the queue
--      3 conc:{name}:alive  ZSET  waiting token -> lease end (ms)
--      4 conc:{name}:seen   HASH  at: last call (ms); quiet: no grants before (ms)
-- ARGV 1 cap, 2 lease (ms), 3 channel for events, 4 '1' at the first call of this process
local slots, queue, alive, seen = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local cap, lease, channel, first_contact = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Each process calls several times per lease. Without calls, the server was unavailable or has lost its data, and
-- live holders may be unknown here: they are asked to renew, and nothing is granted for one lease, because a holder
-- that has not lost its own lease yet renews within that time.
local function quiet_period()
  local known = redis.call('HMGET', seen, 'at', 'quiet')
  local at, until_ms = tonumber(known[1]), tonumber(known[2]) or 0
  local uncertain = not at or (now - at > lease and redis.call('EXISTS', slots) == 1)
  if uncertain then
    local listeners = redis.call('PUBLISH', channel, 'renew')
    if not first_contact or listeners > 1 then until_ms = now + lease end
  end
  redis.call('HSET', seen, 'at', now, 'quiet', until_ms)
  return until_ms > now and until_ms
end
local quiet = quiet_period()

local function prune()
  if quiet then return end
  redis.call('ZREMRANGEBYSCORE', slots, '-inf', now)
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', alive, '-inf', now)) do
    redis.call('ZREM', queue, token)
    redis.call('ZREM', alive, token)
  end
end

local function hold(token) redis.call('ZADD', slots, now + lease, token) end

-- Extends the lease of the token; a token without slot or place is appended to the queue.
local function enqueue(token)
  if redis.call('ZSCORE', slots, token) then return hold(token) end
  if not redis.call('ZSCORE', queue, token) then
    local last = redis.call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')
    redis.call('ZADD', queue, (tonumber(last[2]) or 0) + 1, token)
  end
  redis.call('ZADD', alive, now + lease, token)
end

-- Grants free slots to the first tokens of the queue and notifies their owners.
local function grant_free()
  local granted = {}
  while not quiet and redis.call('ZCARD', slots) < cap do
    local first = redis.call('ZRANGE', queue, 0, 0)[1]
    if not first then break end
    redis.call('ZREM', queue, first)
    redis.call('ZREM', alive, first)
    hold(first)
    granted[#granted + 1] = first
  end
  if #granted > 0 then redis.call('PUBLISH', channel, 'granted ' .. table.concat(granted, ' ')) end
end

-- Returns { length of the queue, ms until it may advance without an event or -1, held tokens, waiting tokens,
-- tokens that hold slots beyond the cap, which has shrunk }.
local function status(tokens)
  local waiting = redis.call('ZCARD', queue)
  local recheck_ms = -1
  if waiting > 0 then
    local first = redis.call('ZRANGE', slots, 0, 0, 'WITHSCORES')
    recheck_ms = math.max(1, math.min(quiet or math.huge, tonumber(first[2]) or now + lease) - now)
  end
  local held, rest = {}, {}
  for _, token in ipairs(tokens) do
    if redis.call('ZSCORE', slots, token) then held[#held + 1] = token
    elseif redis.call('ZSCORE', queue, token) then rest[#rest + 1] = token end
  end
  return { waiting, math.ceil(recheck_ms), held, rest, math.max(0, redis.call('ZCARD', slots) - cap) }
end
