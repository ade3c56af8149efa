-- Shared by push and take_due: the lane of a message that has none yet (least_loaded).
-- The lowest pending + running wins, ties go to the lower number; a batch keeps the lane of its first message.
local loads

local function read_loads(lanes)
  loads = {}
  for i = 0, lanes - 1 do
    local name = prefix .. 'queue:queue_' .. i
    local counts = redis.call('MGET', name .. ':pending', name .. ':running')
    loads[i] = (tonumber(counts[1]) or 0) + (tonumber(counts[2]) or 0)
  end
end

local function choose(lanes, batch)
  local memory = batch ~= '' and prefix .. 'jobs:batch:' .. batch
  local kept = memory and redis.call('GET', memory)
  if kept then return kept end
  if not loads then read_loads(lanes) end
  local best = 0
  for i = 1, lanes - 1 do
    if loads[i] < loads[best] then best = i end
  end
  loads[best] = loads[best] + 1
  local lane = 'queue_' .. best
  if memory then redis.call('SET', memory, lane, 'EX', 3600) end
  return lane
end
