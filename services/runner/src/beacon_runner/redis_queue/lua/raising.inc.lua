-- Shared by push and move: a message goes to a higher class or to the front, never back, so that an order
-- that arrives twice or late changes nothing. One that is leased or waits for its retry goes there next time.
local rank = { high = 3, medium = 2, low = 1 }

local function raise(id, value, class, front)
  local place, holder, rest, old_class, lane = parse(value)
  local higher = class ~= '' and rank[class] > rank[old_class]
  local target = higher and class or old_class
  local new_rest = higher and rest:gsub('^(%d+:%d+):%a+:', '%1:' .. class .. ':') or rest
  local paid = { w = 'f', r = 's', l = 'k' }
  if not higher and not (front and paid[place]) then return 0 end
  if place ~= 'w' and place ~= 'f' then
    redis.call('HSET', live, id, (front and paid[place] or place) .. holder .. ':' .. new_rest)
    return 1
  end
  leave(id, place, old_class, lane)
  if front or place == 'f' then enter_front('LPUSH', id, new_rest, target, lane)
  else enter_lane('LPUSH', id, new_rest, target, lane) end
  return 1
end
