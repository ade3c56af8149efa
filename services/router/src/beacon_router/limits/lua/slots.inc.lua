-- Shared by acquire, renew and release.
-- KEYS 1 conc:{name}        ZSET  token that holds a slot -> lease end (ms)
--      2 conc:{name}:line   ZSET  waiting token -> place in line
--      3 conc:{name}:alive  ZSET  waiting token -> lease end (ms)
--      4 conc:{name}:seen   HASH  at: last time anybody spoke (ms); quiet: no grants before (ms)
-- ARGV 1 cap, 2 lease (ms), 3 channel for news, 4 '1' when this process has not spoken before
local slots, line, alive, seen = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local cap, lease, channel, newcomer = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Everybody speaks several times per lease. If nobody did, the server was away or came back empty, and holders
-- that live may not be known here: they are asked, and nothing is granted before they had the time to answer.
local function quiet()
  local known = redis.call('HMGET', seen, 'at', 'quiet')
  local at, till = tonumber(known[1]), tonumber(known[2]) or 0
  local unsure = not at or (now - at > lease and redis.call('EXISTS', slots) == 1)
  if unsure then
    local listeners = redis.call('PUBLISH', channel, 'renew')
    if not newcomer or listeners > 1 then till = now + lease / 2 end
  end
  redis.call('HSET', seen, 'at', now, 'quiet', till)
  return till > now and till
end
local hush = quiet()

local function prune()
  if hush then return end
  redis.call('ZREMRANGEBYSCORE', slots, '-inf', now)
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', alive, '-inf', now)) do
    redis.call('ZREM', line, token)
    redis.call('ZREM', alive, token)
  end
end

local function hold(token) redis.call('ZADD', slots, now + lease, token) end

-- Extends what the token has; one that has nothing goes to the end of the line.
local function stand(token)
  if redis.call('ZSCORE', slots, token) then return hold(token) end
  if not redis.call('ZSCORE', line, token) then
    local last = redis.call('ZREVRANGE', line, 0, 0, 'WITHSCORES')
    redis.call('ZADD', line, (tonumber(last[2]) or 0) + 1, token)
  end
  redis.call('ZADD', alive, now + lease, token)
end

-- Free slots go to the first in line, who are told by name.
local function serve()
  local granted = {}
  while not hush and redis.call('ZCARD', slots) < cap do
    local first = redis.call('ZRANGE', line, 0, 0)[1]
    if not first then break end
    redis.call('ZREM', line, first)
    redis.call('ZREM', alive, first)
    hold(first)
    granted[#granted + 1] = first
  end
  if #granted > 0 then redis.call('PUBLISH', channel, 'granted ' .. table.concat(granted, ' ')) end
end

-- { how many stand in line, ms until the line may move without news (-1: nobody waits), held…, '|', waiting… }
local function standing(tokens)
  local waiting = redis.call('ZCARD', line)
  local again = -1
  if waiting > 0 then
    local first = redis.call('ZRANGE', slots, 0, 0, 'WITHSCORES')
    again = math.max(1, math.min(hush or math.huge, tonumber(first[2]) or now + lease) - now)
  end
  local held, rest = {}, {}
  for _, token in ipairs(tokens) do
    if redis.call('ZSCORE', slots, token) then held[#held + 1] = token
    elseif redis.call('ZSCORE', line, token) then rest[#rest + 1] = token end
  end
  return { waiting, math.ceil(again), held, rest }
end
