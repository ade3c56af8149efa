-- Takes a slot for each token, or a place at the end of the line; a token that has either keeps it.
-- KEYS and ARGV 1-4 as in slots.inc.lua; ARGV 5… tokens
-- Returns { waiting in line, ms until the line may move without news or -1, held tokens, waiting tokens }.
-- include slots.inc.lua
local tokens = { unpack(ARGV, 5) }
prune()
local before = redis.call('ZCARD', line)
for _, token in ipairs(tokens) do stand(token) end
serve()
if redis.call('ZCARD', line) > before then redis.call('PUBLISH', channel, 'wanted') end
return standing(tokens)
