-- Moves a message to a higher class or to the front, never back, so that a change that arrives twice or late has no
-- effect. A leased message and a retry keep their place and use the new class or the front when they wait again.
local rank = { high = 3, medium = 2, low = 1 }
local front_place = { w = 'f', r = 's', l = 'k' }

local function reprioritise(id, value, class, front)
  local place, holder, payload, old_class, lane = parse(value)
  local higher = class ~= '' and rank[class] > rank[old_class]
  local new_class = higher and class or old_class
  local new_payload = higher and payload:gsub('^(%d+:%d+):%a+:', '%1:' .. class .. ':') or payload
  if not higher and not (front and front_place[place]) then return 0 end
  if place ~= 'w' and place ~= 'f' then
    redis.call('HSET', live, id, (front and front_place[place] or place) .. holder .. ':' .. new_payload)
    return 1
  end
  leave(id, place, old_class, lane)
  if front or place == 'f' then enter_front('LPUSH', id, new_payload, new_class, lane)
  else enter_lane('LPUSH', id, new_payload, new_class, lane) end
  return 1
end
