-- Ends running requests. With `forget` they never counted.
-- KEYS and ARGV 1-3 as in request_use.inc.lua; ARGV 4 '1' to forget them, 5… requests
-- Returns the number of requests that were running.
-- include request_use.inc.lua
local released = 0
for i = 5, #ARGV do
  released = released + redis.call('ZREM', running, ARGV[i])
  if ARGV[4] == '1' then redis.call('ZREM', started, ARGV[i]) end
end
return released
