-- Recounts lists and leases and replaces every counter of lanes and classes.
-- KEYS 1-5 as in layout.inc.lua
-- ARGV 1-3 as in layout.inc.lua, 4 classes separated by commas, then the lanes that have a counter now
-- Returns a row {lane, pending, running} for each lane whose counters were wrong, as they are now.
-- include layout.inc.lua
local lanes, wrong = {}, {}

local function found(lane, what, n)
  lanes[lane] = lanes[lane] or { pending = 0, running = 0 }
  lanes[lane][what] = lanes[lane][what] + n
end

local function found_each(ids, what)
  for _, id in ipairs(ids) do
    local value = redis.call('HGET', live, id)
    if value then found(select(5, parse(value)), what, 1) end
  end
end

local function replace(lane, what, actual)
  local key = prefix .. 'queue:' .. lane .. ':' .. what
  local right = tonumber(redis.call('GET', key) or '0') == actual
  if actual == 0 then redis.call('DEL', key) else redis.call('SET', key, actual) end
  return right
end

redis.call('DEL', waiting)
for class in ARGV[4]:gmatch('%a+') do
  local front = redis.call('LRANGE', front_of(class), 0, -1)
  local total = #front
  found_each(front, 'pending')
  for _, lane in ipairs(redis.call('LRANGE', ring_of(class), 0, -1)) do
    local n = redis.call('LLEN', list_of(class, lane))
    found(lane, 'pending', n)
    total = total + n
  end
  if total > 0 then redis.call('HSET', waiting, class, total) end
end
found_each(redis.call('ZRANGE', leases, 0, -1), 'running')
for i = 5, #ARGV do found(ARGV[i], 'pending', 0) end
for lane, actual in pairs(lanes) do
  local right = replace(lane, 'pending', actual.pending)
  right = replace(lane, 'running', actual.running) and right
  if not right then wrong[#wrong + 1] = { lane, actual.pending, actual.running } end
end
return wrong
