-- Leases up to `limit` messages: front lists of all given classes first, then class by class the lanes round-robin.
-- Returns nothing after Redis was emptied, until the paused classes are restored (`jobs:open`, `jobs:epoch`).
-- KEYS 1-5 as in layout.inc.lua
-- ARGV 1-3 as in layout.inc.lua, 4 lease in ms, 5 holder, 6 limit, 7 lanes to skip (args.inc.lua), then the classes in
--      order
-- Returns one text: `id:stage:attempt:class:lane` and a line break for each message.
-- include layout.inc.lua
-- include args.inc.lua
if redis.call('EXISTS', prefix .. 'jobs:open', prefix .. 'jobs:epoch') == 0 then return '' end
local left, ids, places, skipped = tonumber(ARGV[6]), {}, {}, {}
for _, lane in ipairs(unpack_args(ARGV[7])) do skipped[lane] = true end

local function take(id, place)
  left = left - 1
  ids[#ids + 1], places[#places + 1] = id, place
end

-- Pops up to `limit` ids; returns them and the length before.
local function pop(list, limit)
  local length = redis.call('LLEN', list)
  return length > 0 and redis.call('RPOP', list, limit) or {}, length
end

-- Pops lanes until `left` of them are not skipped; adds the others to `passed`.
local function pop_lanes(ring, passed)
  local lanes = {}
  repeat
    local popped = pop(ring, left - #lanes)
    for _, lane in ipairs(popped) do
      if skipped[lane] then passed[#passed + 1] = lane else lanes[#lanes + 1] = lane end
    end
  until #popped == 0 or #lanes == left
  return lanes
end

-- Takes from each lane of the ring the same number of messages, in the order of single turns, and puts lanes that
-- still have messages behind the others.
local function take_round_robin(class, ring, passed)
  local lanes, again, taken = pop_lanes(ring, passed), {}, {}
  local turns, longest = math.floor(left / math.max(#lanes, 1)), 0
  for i, lane in ipairs(lanes) do
    local from_lane, length = pop(list_of(class, lane), turns) -- empty when the list was deleted
    taken[i], longest = from_lane, math.max(longest, #from_lane)
    if length > turns then again[#again + 1] = lane end
  end
  for turn = 1, longest do
    for _, from_lane in ipairs(taken) do
      if from_lane[turn] then take(from_lane[turn], 'l') end
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
  if left > 0 then
    for _, id in ipairs((pop(front_of(class), left))) do take(id, 'k') end
  end
end
for _, class in ipairs(open) do
  local ring, passed = ring_of(class), {}
  while left > 0 and take_round_robin(class, ring, passed) do end
  for first = 1, #passed, 1000 do
    redis.call('LPUSH', ring, unpack(passed, first, math.min(first + 999, #passed)))
  end
end
if #ids == 0 then return '' end

-- An id that is in a list by mistake, or twice, is dropped.
local lease_end = string.format('%d', now_ms() + ARGV[4])
local texts, fields, scores, seen = {}, {}, {}, {}
for i, value in ipairs(redis.call('HMGET', live, unpack(ids))) do
  local id = ids[i]
  local place, _, payload, class, lane = parse(value or '')
  if not seen[id] and (place == 'w' or place == 'f') then
    seen[id] = true
    texts[#texts + 1] = id .. ':' .. payload .. '\n'
    fields[#fields + 1], fields[#fields + 2] = id, places[i] .. ARGV[5] .. ':' .. payload
    scores[#scores + 1], scores[#scores + 2] = lease_end, id
    count_waiting(class, lane, -1)
    add(running, lane, 1)
  end
end
if #fields > 0 then
  redis.call('HSET', live, unpack(fields))
  redis.call('ZADD', leases, unpack(scores))
end
commit_counters()
return table.concat(texts)
