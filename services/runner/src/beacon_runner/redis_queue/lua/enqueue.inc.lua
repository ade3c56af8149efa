-- Used by push: messages for lanes are collected and written together, a few commands for each lane.
local added, fields, lists = {}, {}, {}

local function with_lane(payload, batch)
  local class, lane = payload:match('^%d+:%d+:(%a+):(.*)$')
  if lane ~= '' then return payload, class, lane end
  lane = choose_lane(tonumber(ARGV[4]), batch)
  return payload .. lane, class, lane
end

local function add_to_lane(id, payload, class, lane)
  local list = list_of(class, lane)
  lists[list] = lists[list] or { class = class, lane = lane }
  table.insert(lists[list], id)
  added[id] = true
  fields[#fields + 1], fields[#fields + 2] = id, 'w:' .. payload
  count_waiting(class, lane, 1)
end

-- Lanes join the ring in the order of their first message, which `pairs` would not keep.
local function write_added()
  if #fields == 0 then return end
  redis.call('HSET', live, unpack(fields))
  for i = 1, #fields, 2 do
    local _, _, _, class, lane = parse(fields[i + 1])
    local list = list_of(class, lane)
    local ids = lists[list]
    if ids then
      if redis.call('LPUSH', list, unpack(ids)) == #ids then redis.call('LPUSH', ring_of(class), lane) end
      lists[list] = nil
    end
  end
  added, fields = {}, {}
end
