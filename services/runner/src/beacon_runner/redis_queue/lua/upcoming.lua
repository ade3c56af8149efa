-- The ids of leased messages, of messages that are served next, and of retries, each up to a limit.
-- KEYS 1-5 as in layout.inc.lua
-- ARGV 1-3 as in layout.inc.lua, 4 limit of each list, then the classes in order
-- Returns {leased ids, waiting ids in the order of service, retry ids, leased, waiting, retries in all}.
-- include layout.inc.lua
local limit, next_up, total = tonumber(ARGV[4]), {}, 0

local function add_front(class)
  local ids = redis.call('LRANGE', front_of(class), -limit, -1)
  for i = #ids, 1, -1 do next_up[#next_up + 1] = ids[i] end
end

-- Lanes are served from the right end of the ring, one message at each turn.
local function add_lanes(class)
  local lanes, turn = redis.call('LRANGE', ring_of(class), -limit, -1), 0
  while #lanes > 0 and #next_up < limit do
    turn = turn + 1
    for i = #lanes, 1, -1 do
      local id = #next_up < limit and redis.call('LINDEX', list_of(class, lanes[i]), -turn)
      if id then next_up[#next_up + 1] = id else table.remove(lanes, i) end
    end
  end
end

for i = 5, #ARGV do add_front(ARGV[i]) end
for i = 5, #ARGV do
  add_lanes(ARGV[i])
  total = total + tonumber(redis.call('HGET', waiting, ARGV[i]) or '0')
end
return { redis.call('ZRANGE', leases, 0, limit - 1), next_up, redis.call('ZRANGE', retries, 0, limit - 1),
  redis.call('ZCARD', leases), total, redis.call('ZCARD', retries) }
