-- Removes dead letters from the mirror.
-- KEYS 1 dead LIST of ids, 2 dead ids HASH (job -> id)
-- ARGV the jobs; none means all
-- Returns how many were removed.
if #ARGV == 0 then
  local all = redis.call('LLEN', KEYS[1])
  redis.call('DEL', KEYS[1], KEYS[2])
  return all
end
local removed = 0
for _, job in ipairs(ARGV) do
  local id = redis.call('HGET', KEYS[2], job)
  if id then
    removed = removed + redis.call('LREM', KEYS[1], 1, id)
    redis.call('HDEL', KEYS[2], job)
  end
end
return removed
