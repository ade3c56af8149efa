-- Moves one waiting message to a higher class, or to the front of its class. There is one message before and after.
-- KEYS 1-5 as in places.inc.lua
-- ARGV 1-3 as in places.inc.lua, 4 id, 5 class ('' keeps it), 6 '1' for the front
-- Returns 1 when it moved, 0 when it is not waiting or already there.
-- include places.inc.lua
-- include moving.inc.lua
-- include raising.inc.lua
local value = redis.call('HGET', live, ARGV[4])
if not value then return 0 end
local moved = raise(ARGV[4], value, ARGV[5], ARGV[6] == '1')
conclude(true)
return moved
