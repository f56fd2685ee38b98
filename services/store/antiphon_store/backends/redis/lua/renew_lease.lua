#!lua
-- Extends a living lease.
-- needs: clock nodes sessions
-- KEYS: the session's key
-- ARGV: now, tree before, tree after, session id, token, ttl
-- Answer: ok, fence, holder, end of the lease; or a refusal
-- Indivisible: that it lives, and its new end.
-- Frequent: an edge renews all its leases at the same moments.

local session = read_session(KEYS[1])
if not holds(session, ARGV[5]) then
  return {'stale_fence', ARGV[4], ARGV[5]}
end
extend(session, ARGV[6])
return granted(session)
