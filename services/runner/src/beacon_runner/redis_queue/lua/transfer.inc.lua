-- Moves single messages between places. Include after layout.inc.lua; commit_counters must follow.

-- `push` is LPUSH (last of the lane) or RPUSH (first).
local function enter_lane(push, id, payload, class, lane)
  if redis.call(push, list_of(class, lane), id) == 1 then redis.call('LPUSH', ring_of(class), lane) end
  redis.call('HSET', live, id, 'w:' .. payload)
  count_waiting(class, lane, 1)
end

local function enter_front(push, id, payload, class, lane)
  redis.call(push, front_of(class), id)
  redis.call('HSET', live, id, 'f:' .. payload)
  count_waiting(class, lane, 1)
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
  elseif place == 'r' or place == 's' then
    redis.call('ZREM', retries, id)
  else
    redis.call('ZREM', leases, id)
    add(running, lane, -1)
  end
end

-- A leased message returns to its lane or to the front list, before all others there.
local function return_first(id, place, payload, class, lane)
  leave(id, place, class, lane)
  if place == 'k' then enter_front('RPUSH', id, payload, class, lane)
  else enter_lane('RPUSH', id, payload, class, lane) end
end
