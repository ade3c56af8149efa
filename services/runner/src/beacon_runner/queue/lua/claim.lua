-- Leases up to n messages: of each class in the given order the paid front first, then its lanes in turn.
-- KEYS 1-5 as in places.inc.lua
-- ARGV 1-3 as in places.inc.lua, 4 lease in ms, 5 holder, 6 limit, then the classes in order
-- Returns the messages as `id:stage:attempt:class:lane`.
-- include places.inc.lua
local left, ids, letters = tonumber(ARGV[6]), {}, {}

local function take(id, letter)
  ids[#ids + 1], letters[#ids + 1] = id, letter
  left = left - 1
end

local function take_front(class)
  for _, id in ipairs(redis.call('RPOP', front_of(class), left) or {}) do take(id, 'k') end
end

local function take_in_turn(class, ring)
  local lane = redis.call('RPOP', ring)
  if not lane then return false end
  -- A lane that is alone needs no turns: all that is wanted comes in one step.
  local n = redis.call('EXISTS', ring) == 1 and 1 or left
  local list = list_of(class, lane)
  for _, id in ipairs(redis.call('RPOP', list, n) or {}) do take(id, 'l') end
  if redis.call('EXISTS', list) == 1 then redis.call('LPUSH', ring, lane) end
  return true
end

for i = 7, #ARGV do
  if left > 0 and redis.call('SISMEMBER', paused, ARGV[i]) == 0 then
    take_front(ARGV[i])
    while left > 0 and take_in_turn(ARGV[i], ring_of(ARGV[i])) do end
  end
end
if #ids == 0 then return {} end

local ends, texts, fields, scores, lanes, classes = now_ms() + ARGV[4], {}, {}, {}, {}, {}
for i, value in ipairs(redis.call('HMGET', live, unpack(ids))) do
  local _, _, rest, class, lane = parse(value)
  texts[i] = ids[i] .. ':' .. rest
  fields[2 * i - 1], fields[2 * i] = ids[i], letters[i] .. ARGV[5] .. ':' .. rest
  scores[2 * i - 1], scores[2 * i] = ends, ids[i]
  lanes[lane], classes[class] = (lanes[lane] or 0) + 1, (classes[class] or 0) + 1
end
redis.call('HSET', live, unpack(fields))
redis.call('ZADD', leases, unpack(scores))
for lane, n in pairs(lanes) do
  count(lane, 'pending', -n)
  count(lane, 'running', n)
end
for class, n in pairs(classes) do
  if redis.call('HINCRBY', waiting, class, -n) <= 0 then redis.call('HDEL', waiting, class) end
end
return texts
