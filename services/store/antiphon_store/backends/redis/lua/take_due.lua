#!lua flags=allow-oom
-- Takes entries whose time has come, and hides them from other callers for some time.
-- KEYS: the index
-- ARGV: now; how many; for how many milliseconds they are hidden
-- Answer: ok, ids and times in turns, until when they are hidden
-- Indivisible: all of it.

local due = redis.call('ZRANGE', KEYS[1], '-inf', integer(now_ms), 'BYSCORE', 'LIMIT', 0, ARGV[2], 'WITHSCORES')
local hidden_until = integer(now_ms + tonumber(ARGV[3]))
for place = 1, #due, 2 do
  redis.call('ZADD', KEYS[1], hidden_until, due[place])
end
return {'ok', due, tonumber(hidden_until)}
