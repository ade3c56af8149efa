-- Gives slots back and leaves the line; what is free then goes to the first in line.
-- KEYS and ARGV 1-4 as in slots.inc.lua; ARGV 5… tokens
-- Returns how many of the tokens were known.
-- include slots.inc.lua
local gone = 0
for i = 5, #ARGV do
  gone = gone + redis.call('ZREM', slots, ARGV[i]) + redis.call('ZREM', line, ARGV[i])
  redis.call('ZREM', alive, ARGV[i])
end
prune()
serve()
return gone
