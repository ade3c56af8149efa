-- Shared by the operations: where a message is, how it enters a place and leaves it.
--
-- The live HASH has one field a message. Its name is the message's id, its value
-- `<place><holder>:<stage>:<attempt>:<class>:<lane>`, where place is one of
--   w waiting in its lane     r waiting in the retry set     l leased
--   f, s, k the same for one that was paid to go first: it waits in front, whenever it waits
-- and holder is the worker, only for l and k.
-- Every operation starts with the same KEYS and ARGV:
-- KEYS 1 live HASH, 2 leases ZSET (id -> lease end in ms), 3 retry ZSET (id -> due in ms),
--      4 waiting HASH (class -> messages in its lanes and front), 5 paused SET of classes
-- ARGV 1 prefix of every key, 2 '1' when the only list is plainly `jobs`, 3 channel that wakes workers
-- Lists, rings and counters are named after what the messages say, so they cannot be listed in KEYS;
-- in a cluster the prefix is a hash tag, which keeps them in the slot of the others.
local live, leases, retries, waiting, paused = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local prefix, plain, channel = ARGV[1], ARGV[2] == '1', ARGV[3]

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Lanes from before the setting was changed keep their own lists, so that what waits there is still served.
local function list_of(class, lane)
  if plain and lane == 'all' then return prefix .. 'jobs' end
  return prefix .. 'jobs:' .. class .. ':' .. lane
end

local function ring_of(class) return prefix .. 'jobs:' .. class .. ':ring' end
local function front_of(class) return prefix .. 'jobs:' .. class .. ':front' end

local function parse(value)
  local place, holder, rest, class, lane = value:match('^(%a)([^:]*):(%d+:%d+:(%a+):(.*))$')
  return place, holder, rest, class, lane
end

-- Counters are changed at the end of the operation, all in a few commands.
local pending, running, by_class = {}, {}, {}

local function tally(counts, name, by) counts[name] = (counts[name] or 0) + by end

local function count_waiting(class, lane, by)
  tally(pending, lane, by)
  tally(by_class, class, by)
end

local function settle_counters(counts, what)
  local keys, changes, set, gone = {}, {}, {}, {}
  for lane, by in pairs(counts) do
    keys[#keys + 1], changes[#changes + 1] = prefix .. 'queue:' .. lane .. ':' .. what, by
  end
  if #keys == 0 then return end
  for i, old in ipairs(redis.call('MGET', unpack(keys))) do
    local new = (tonumber(old) or 0) + changes[i]
    -- A counter at zero is a counter that is absent: it cannot be negative and costs nothing.
    if new > 0 then set[#set + 1], set[#set + 2] = keys[i], new
    elseif old then gone[#gone + 1] = keys[i] end
  end
  if #set > 0 then redis.call('MSET', unpack(set)) end
  if #gone > 0 then redis.call('DEL', unpack(gone)) end
end

-- To be called once, last: brings the counters in line, and wakes workers where messages were added.
local function conclude(woken)
  settle_counters(pending, 'pending')
  settle_counters(running, 'running')
  for class, by in pairs(by_class) do
    if by ~= 0 and redis.call('HINCRBY', waiting, class, by) <= 0 then redis.call('HDEL', waiting, class) end
    if by > 0 or woken then redis.call('PUBLISH', channel, class) end
  end
end
