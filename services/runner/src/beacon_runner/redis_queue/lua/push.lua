-- Adds messages. A message that is held already is not added again; it can move to a higher class or to the front.
-- KEYS 1-5 as in layout.inc.lua, 6 dead LIST of message ids, 7 dead ids HASH (job -> message id)
-- ARGV 1-3 as in layout.inc.lua, 4 number of least_loaded lanes, 5 four values (args.inc.lua) for each message: kind
--      (j lane, f front, r retry, s retry of a paid skip, d dead), id, `stage:attempt:class:lane`, due in ms (r, s) or
--      batch (j, f)
-- Returns how many messages were added or moved.
-- include layout.inc.lua
-- include transfer.inc.lua
-- include reprioritise.inc.lua
-- include lane_choice.inc.lua
-- include enqueue.inc.lua
-- include args.inc.lua
local changed, values = 0, unpack_args(ARGV[5])

local function add_dead(id)
  local job = id:match('^%x+')
  local mirrored = redis.call('HGET', KEYS[7], job)
  if mirrored == id then return 0 end
  if mirrored then redis.call('LREM', KEYS[6], 1, mirrored) end
  redis.call('LPUSH', KEYS[6], id)
  redis.call('HSET', KEYS[7], job, id)
  return 1
end

local function add_new(kind, id, payload, extra)
  if kind == 'j' then add_to_lane(id, with_lane(payload, extra))
  elseif kind == 'f' then enter_front('LPUSH', id, with_lane(payload, extra))
  else
    redis.call('ZADD', retries, extra, id)
    redis.call('HSET', live, id, kind .. ':' .. payload)
  end
end

for i = 1, #values, 4 do
  local kind, id, payload, extra = values[i], values[i + 1], values[i + 2], values[i + 3]
  if kind == 'd' then
    changed = changed + add_dead(id)
  else
    if kind ~= 'j' or added[id] then write_added() end
    local held = not added[id] and redis.call('HGET', live, id)
    if not held and not added[id] then
      add_new(kind, id, payload, extra)
      changed = changed + 1
    elseif held and (kind == 'j' or kind == 'f') then
      changed = changed + reprioritise(id, held, payload:match('^%d+:%d+:(%a+):'), kind == 'f')
    end
  end
end
write_added()
commit_counters()
return changed
