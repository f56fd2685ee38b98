#!lua flags=allow-oom
-- Ends a living lease.
-- needs: clock nodes sessions
-- KEYS: the session's key
-- ARGV: now, tree before, tree after, token
-- Answer: ok, whether there was one
-- Indivisible: that it is the fence's, and its end.

local session = read_session(KEYS[1])
if not holds(session, ARGV[4]) then
  return {'ok', 0}
end
release(session)
return {'ok', 1}
