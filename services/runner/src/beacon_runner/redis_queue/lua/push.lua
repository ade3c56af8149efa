-- Adds messages; one that is known already is not added again, though it may go to a higher class or to the front.
-- KEYS 1-5 as in places.inc.lua, 6 dead LIST of ids, 7 dead ids HASH (job -> id), 8 idle ZSET (see handing.inc.lua)
-- ARGV 1-3 as in places.inc.lua, 4 number of least_loaded lanes, 5 four words (see words.inc.lua) for each message:
--      kind (j lane, f front, r retry, s retry that goes to the front, d dead), id, `stage:attempt:class:lane`,
--      due in ms (r, s) or batch (j, f); 6 lease in ms, 7 grant of the only message, told to a pool that it is
--      handed to and kept nowhere
-- Returns how many messages were added or moved.
-- include places.inc.lua
-- include handing.inc.lua

-- The next job of an idle system: what follows need not even be defined for it.
if ARGV[7] ~= '' then
  local id, rest, class, lane = ARGV[5]:match('^j\n([^\n]*)\n(%d+:%d+:(%a+):([^\n]+))\n')
  local new = id and redis.call('HEXISTS', live, id) == 0
  if new and hand_over(KEYS[8], ARGV[6], id, rest, class, lane, ARGV[7]) then return 1 end
end

-- include moving.inc.lua
-- include raising.inc.lua
-- include choosing.inc.lua
-- include adding.inc.lua
-- include words.inc.lua
local changed, given = 0, words(ARGV[5])

local add = {}
function add.j(id, given_rest, batch)
  local rest, class, lane = with_lane(given_rest, batch)
  if not hand_over(KEYS[8], ARGV[6], id, rest, class, lane, ARGV[7]) then add_to_lane(id, rest, class, lane) end
end
function add.f(id, rest, batch) enter_front('LPUSH', id, with_lane(rest, batch)) end
local function add_retry(letter)
  return function(id, rest, due)
    redis.call('ZADD', retries, due, id)
    redis.call('HSET', live, id, letter .. ':' .. rest)
  end
end
add.r, add.s = add_retry('r'), add_retry('s')

for i = 1, #given, 4 do
  local kind, id, rest, extra = given[i], given[i + 1], given[i + 2], given[i + 3]
  if kind == 'd' then
    changed = changed + mirror_dead(id)
  else
    if kind ~= 'j' or added[id] then write_added() end
    local known = not added[id] and redis.call('HGET', live, id)
    if not known and not added[id] then
      add[kind](id, rest, extra)
      changed = changed + 1
    elseif known and kind ~= 'r' and kind ~= 's' then
      changed = changed + raise(id, known, rest:match('^%d+:%d+:(%a+):'), kind == 'f')
    end
  end
end
write_added()
conclude()
return changed
