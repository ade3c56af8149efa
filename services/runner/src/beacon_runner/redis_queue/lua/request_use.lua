-- The requests of a user.
-- KEYS and ARGV 1-3 as in request_use.inc.lua
-- Returns { started, running, ms until one more may start, ms until the window is empty }.
-- include request_use.inc.lua
prune()
return use()
