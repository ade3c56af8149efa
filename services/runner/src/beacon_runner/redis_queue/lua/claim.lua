-- Leases up to n messages: what was paid to go first, whatever its class, then of each class in the given
-- order its lanes in turn. Nothing from a Redis that came back empty, until it is known there what is paused.
-- KEYS 1-5 as in places.inc.lua, 6 idle ZSET (see handing.inc.lua)
-- ARGV 1-3 as in places.inc.lua, 4 lease in ms, 5 holder, 6 limit, 7 pool ('' when nothing can be handed to it),
--      then the classes in order
-- Returns the messages as `id:stage:attempt:class:lane`, each with a line break: one text is cheaper than many.
-- include places.inc.lua
-- include handing.inc.lua
if redis.call('EXISTS', prefix .. 'jobs:open', prefix .. 'jobs:epoch') == 0 then return '' end
local left, taken, ids, letters = tonumber(ARGV[6]), 0, {}, {}

local function take(id, letter)
  taken, left = taken + 1, left - 1
  ids[taken], letters[taken] = id, letter
end

-- At most `limit` ids from the end of the list, and the length of the list before.
local function pop(list, limit)
  local length = redis.call('LLEN', list)
  if length == 0 then return {}, 0 end
  return redis.call('RPOP', list, limit), length
end

local function take_many(list, letter)
  for _, id in ipairs(pop(list, left)) do take(id, letter) end
end

-- As many turns of the ring as what is left allows: each lane gives its part at once, and is put behind the others
-- if it still has something. What comes of it is in the order of single turns.
local function take_in_turns(class, ring)
  local lanes, again, parts = pop(ring, left), {}, {}
  local turns, longest = math.floor(left / math.max(#lanes, 1)), 0
  for i, lane in ipairs(lanes) do
    local part, length = pop(list_of(class, lane), turns) -- nothing from a lane whose list is gone
    parts[i], longest = part, math.max(longest, #part)
    if length > turns then again[#again + 1] = lane end
  end
  for turn = 1, longest do
    for _, part in ipairs(parts) do
      if part[turn] then take(part[turn], 'l') end
    end
  end
  if #again > 0 then redis.call('LPUSH', ring, unpack(again)) end
  return #lanes > 0
end

local open = {}
for i = 8, #ARGV do
  if redis.call('SISMEMBER', paused, ARGV[i]) == 0 then open[#open + 1] = ARGV[i] end
end
for _, class in ipairs(open) do
  if left > 0 then take_many(front_of(class), 'k') end
end
for _, class in ipairs(open) do
  while left > 0 and take_in_turns(class, ring_of(class)) do end
end
if ARGV[7] ~= '' then
  note_idle(KEYS[6], table.concat({ ARGV[5], ARGV[7], table.concat(ARGV, ',', 8) }, '\n'), left > 0)
end
if taken == 0 then return '' end

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
