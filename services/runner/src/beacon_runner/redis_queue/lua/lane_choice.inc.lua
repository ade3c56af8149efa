-- The lane of a message that has none yet (strategy least_loaded): the lowest pending + running, ties by number.
-- A batch keeps the lane of its first message: `jobs:batch:{batch}` STRING, kept for an hour.
local loads

local function read_loads(lanes)
  loads = {}
  for i = 0, lanes - 1 do
    local lane = 'queue_' .. i
    local name = prefix .. 'queue:' .. lane
    local counts = redis.call('MGET', name .. ':pending', name .. ':running')
    loads[lane] = (tonumber(counts[1]) or 0) + (tonumber(counts[2]) or 0) + (pending[lane] or 0)
  end
end

local function choose_lane(lanes, batch)
  local batch_key = batch ~= '' and prefix .. 'jobs:batch:' .. batch
  local best = batch_key and redis.call('GET', batch_key)
  if not loads then read_loads(lanes) end
  if not best then
    best = 'queue_0'
    for i = 1, lanes - 1 do
      if loads['queue_' .. i] < loads[best] then best = 'queue_' .. i end
    end
    if batch_key then redis.call('SET', batch_key, best, 'EX', 3600) end
  end
  loads[best] = (loads[best] or 0) + 1
  return best
end
