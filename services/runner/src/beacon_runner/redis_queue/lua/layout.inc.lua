-- Included by every operation on messages: where a message is, and the counters.
--
-- KEYS 1 live          HASH  message id -> `<place><holder>:<stage>:<attempt>:<class>:<lane>`
--      2 leases        ZSET  message id -> lease end in ms
--      3 retries       ZSET  message id -> due in ms
--      4 waiting       HASH  class -> messages in its lanes and front
--      5 paused        SET   classes
-- ARGV 1 prefix of every key, 2 '1' when the only list is named `jobs`, 3 channel that wakes workers
--
-- place: w waiting in its lane, r waiting in the retry set, l leased; f, s, k the same for a paid skip, which waits
-- in the front list. holder: the worker, only for l and k.
-- Derived keys: `jobs:{class}:{lane}` LIST, `jobs:{class}:ring` LIST of lanes, `jobs:{class}:front` LIST,
-- `queue:{lane}:pending` and `queue:{lane}:running` INT. Their names depend on the messages, so they are not in KEYS;
-- in a cluster the prefix is a hash tag, which keeps all keys in one slot.
local live, leases, retries, waiting, paused = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local prefix, plain, channel = ARGV[1], ARGV[2] == '1', ARGV[3]

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Only the lane `all` uses the plain list: lanes from before a change of settings keep their own lists.
local function list_of(class, lane)
  if plain and lane == 'all' then return prefix .. 'jobs' end
  return prefix .. 'jobs:' .. class .. ':' .. lane
end

local function ring_of(class) return prefix .. 'jobs:' .. class .. ':ring' end
local function front_of(class) return prefix .. 'jobs:' .. class .. ':front' end

-- Returns place, holder, payload (`stage:attempt:class:lane`), class, lane.
local function parse(value) return value:match('^(%a)([^:]*):(%d+:%d+:(%a+):(.*))$') end

-- Changes of counters are collected and written once, by commit_counters.
local pending, running, by_class = {}, {}, {}

local function add(counts, name, by) counts[name] = (counts[name] or 0) + by end

local function count_waiting(class, lane, by)
  add(pending, lane, by)
  add(by_class, class, by)
end

local function write_counters(counts, suffix)
  local keys, changes, set, unset = {}, {}, {}, {}
  for lane, by in pairs(counts) do
    keys[#keys + 1], changes[#changes + 1] = prefix .. 'queue:' .. lane .. ':' .. suffix, by
  end
  if #keys == 0 then return end
  for i, old in ipairs(redis.call('MGET', unpack(keys))) do
    local new = (tonumber(old) or 0) + changes[i]
    -- A counter of zero is deleted: it cannot become negative and needs no memory.
    if new > 0 then set[#set + 1], set[#set + 2] = keys[i], new
    elseif old then unset[#unset + 1] = keys[i] end
  end
  if #set > 0 then redis.call('MSET', unpack(set)) end
  if #unset > 0 then redis.call('DEL', unpack(unset)) end
end

-- Called once, at the end: writes the counters and wakes workers of classes that received messages, or with
-- `always` of all classes that changed.
local function commit_counters(always)
  write_counters(pending, 'pending')
  write_counters(running, 'running')
  for class, by in pairs(by_class) do
    if by ~= 0 and redis.call('HINCRBY', waiting, class, by) <= 0 then redis.call('HDEL', waiting, class) end
    if by > 0 or always then redis.call('PUBLISH', channel, class) end
  end
end
