-- Counts a request of a user, unless that would exceed a limit.
-- KEYS and ARGV 1-3 as in request_use.inc.lua; ARGV 4 requests that may run at a time, 0 for any number, 5 request
-- Returns { 1 if admitted else 0, started, running, ms until one more may start, ms until the window is empty }.
-- include request_use.inc.lua
local concurrent, request = tonumber(ARGV[4]), ARGV[5]
prune()
local admitted = redis.call('ZSCORE', running, request) -- the command was repeated after a lost reply
if not admitted then
  local before = use()
  local rate_reached = per_window > 0 and before[1] >= per_window
  local running_reached = concurrent > 0 and before[2] >= concurrent
  admitted = not rate_reached and not running_reached
  if admitted then
    if per_window > 0 then start(request) end
    hold(request)
  end
end
return { admitted and 1 or 0, unpack(use()) }
