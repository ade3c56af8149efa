-- Simulates the passage of time for one limit: moves all its times into the past.
-- KEYS 1 conc:{name} ZSET, 2 conc:{name}:alive ZSET, 3 conc:{name}:seen HASH; ARGV 1 ms
-- Returns nothing.
local ms = tonumber(ARGV[1])
for i = 1, 2 do
  for _, token in ipairs(redis.call('ZRANGE', KEYS[i], 0, -1)) do redis.call('ZINCRBY', KEYS[i], -ms, token) end
end
for _, field in ipairs({ 'at', 'quiet' }) do
  local noted = redis.call('HGET', KEYS[3], field)
  if noted then redis.call('HSET', KEYS[3], field, tonumber(noted) - ms) end
end
