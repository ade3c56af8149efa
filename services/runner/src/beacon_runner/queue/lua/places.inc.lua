-- Shared by the operations: where a message is, how it enters a place and leaves it.
--
-- The live HASH has one field a message. Its name is the message's id, its value
-- `<place><holder>:<stage>:<attempt>:<class>:<lane>`, where place is one of
--   w waiting in its lane     f waiting in front (a paid skip)     r waiting in the retry set
--   l leased from its lane    k leased from the front              (holder: the worker, only for l and k)
-- Every operation starts with the same KEYS and ARGV:
-- KEYS 1 live HASH, 2 leases ZSET (id -> lease end in ms), 3 retry ZSET (id -> due in ms),
--      4 waiting HASH (class -> messages in its lanes and front), 5 paused SET of classes
-- ARGV 1 prefix of every key, 2 '1' when the only list is plainly `jobs`, 3 channel that wakes workers
-- Lists, rings and counters are named after what the messages say, so they cannot be listed in KEYS;
-- in a cluster the prefix is a hash tag, which keeps them in the slot of the others.
local live, leases, retries, waiting, paused = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local prefix, plain, channel = ARGV[1], ARGV[2] == '1', ARGV[3]
local woken = {}

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function list_of(class, lane)
  return plain and prefix .. 'jobs' or prefix .. 'jobs:' .. class .. ':' .. lane
end

local function ring_of(class) return prefix .. 'jobs:' .. class .. ':ring' end
local function front_of(class) return prefix .. 'jobs:' .. class .. ':front' end

-- A counter at zero is a counter that is absent: it cannot be negative and costs nothing.
local function count(lane, what, by)
  local key = prefix .. 'queue:' .. lane .. ':' .. what
  if redis.call('INCRBY', key, by) <= 0 then redis.call('DEL', key) end
end

local function count_waiting(class, lane, by)
  count(lane, 'pending', by)
  if redis.call('HINCRBY', waiting, class, by) <= 0 then redis.call('HDEL', waiting, class) end
end

local function parse(value)
  local place, holder, rest = value:match('^(%a)([^:]*):(.*)$')
  local class, lane = rest:match('^%d+:%d+:(%a+):(.*)$')
  return place, holder, rest, class, lane
end

-- `push` is LPUSH (last of the lane) or RPUSH (first).
local function enter_lane(push, id, rest, class, lane)
  if redis.call(push, list_of(class, lane), id) == 1 then redis.call('LPUSH', ring_of(class), lane) end
  redis.call('HSET', live, id, 'w:' .. rest)
  count_waiting(class, lane, 1)
  woken[class] = true
end

local function enter_front(push, id, rest, class, lane)
  redis.call(push, front_of(class), id)
  redis.call('HSET', live, id, 'f:' .. rest)
  count_waiting(class, lane, 1)
  woken[class] = true
end

local function leave(id, place, class, lane)
  if place == 'w' then
    local list = list_of(class, lane)
    redis.call('LREM', list, -1, id)
    if redis.call('EXISTS', list) == 0 then redis.call('LREM', ring_of(class), 1, lane) end
    count_waiting(class, lane, -1)
  elseif place == 'f' then
    redis.call('LREM', front_of(class), -1, id)
    count_waiting(class, lane, -1)
  elseif place == 'r' then
    redis.call('ZREM', retries, id)
  else
    redis.call('ZREM', leases, id)
    count(lane, 'running', -1)
  end
end

-- Back to where it was taken from, before all others there.
local function go_back(id, place, rest, class, lane)
  leave(id, place, class, lane)
  if place == 'k' then enter_front('RPUSH', id, rest, class, lane)
  else enter_lane('RPUSH', id, rest, class, lane) end
end

local function wake()
  for class in pairs(woken) do redis.call('PUBLISH', channel, class) end
end
