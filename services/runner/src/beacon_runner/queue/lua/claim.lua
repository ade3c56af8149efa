-- Leases up to n messages: what was paid to go first, whatever its class, then of each class in the given
-- order its lanes in turn. Nothing from a Redis that came back empty, until it is known there what is paused.
-- KEYS 1-5 as in places.inc.lua
-- ARGV 1-3 as in places.inc.lua, 4 lease in ms, 5 holder, 6 limit, then the classes in order
-- Returns the messages as `id:stage:attempt:class:lane`, each with a line break: one text is cheaper than many.
-- include places.inc.lua
if redis.call('EXISTS', prefix .. 'jobs:open', prefix .. 'jobs:epoch') == 0 then return {} end
local left, ids, letters = tonumber(ARGV[6]), {}, {}

local function take(id, letter)
  if not id then return end -- a lane whose list is gone
  ids[#ids + 1], letters[#letters + 1] = id, letter
  left = left - 1
end

local function take_many(list, letter)
  for _, id in ipairs(redis.call('RPOP', list, left) or {}) do take(id, letter) end
end

-- One turn of the ring; what a lane still has puts it behind the others. A lane that is alone needs no turns.
local function take_in_turn(class, ring)
  local lanes, again = redis.call('RPOP', ring, left) or {}, {}
  local alone = #lanes == 1 and redis.call('EXISTS', ring) == 0
  for _, lane in ipairs(lanes) do
    local list = list_of(class, lane)
    if alone then take_many(list, 'l') else take(redis.call('RPOP', list), 'l') end
    if redis.call('EXISTS', list) == 1 then again[#again + 1] = lane end
  end
  if #again > 0 then redis.call('LPUSH', ring, unpack(again)) end
  return #lanes > 0
end

local open = {}
for i = 7, #ARGV do
  if redis.call('SISMEMBER', paused, ARGV[i]) == 0 then open[#open + 1] = ARGV[i] end
end
for _, class in ipairs(open) do
  if left > 0 then take_many(front_of(class), 'k') end
end
for _, class in ipairs(open) do
  while left > 0 and take_in_turn(class, ring_of(class)) do end
end
if #ids == 0 then return '' end

-- Messages of a lane say the same of themselves, so what is said is read once for all of them.
local said = { l = {}, k = {} }

local function read(letter, value)
  local place, _, rest, class, lane = parse(value)
  local waits = place == 'w' or place == 'f'
  local reading = waits and { class = class, lane = lane, count = 0 }
  if waits then
    reading.kept, reading.told = letter .. ARGV[5] .. ':' .. rest, ':' .. rest .. '\n'
  end
  said[letter][value] = reading
  return reading
end

-- An id that is in a list by mistake, or in two, is dropped there and costs the others nothing.
local ends = string.format('%d', now_ms() + ARGV[4]) -- once, and not for each of them
local n, texts, fields, scores, seen = 0, {}, {}, {}, {}
for i, value in ipairs(redis.call('HMGET', live, unpack(ids))) do
  local id, letter = ids[i], letters[i]
  local reading = value and said[letter][value]
  if value and reading == nil then reading = read(letter, value) end
  if reading and not seen[id] then
    seen[id], reading.count = true, reading.count + 1
    texts[n + 1], texts[n + 2] = id, reading.told
    fields[n + 1], fields[n + 2] = id, reading.kept
    scores[n + 1], scores[n + 2] = ends, id
    n = n + 2
  end
end
if n > 0 then
  redis.call('HSET', live, unpack(fields))
  redis.call('ZADD', leases, unpack(scores))
end
for _, readings in pairs(said) do
  for _, reading in pairs(readings) do
    if reading then
      count_waiting(reading.class, reading.lane, -reading.count)
      tally(running, reading.lane, reading.count)
    end
  end
end
conclude()
return table.concat(texts)
