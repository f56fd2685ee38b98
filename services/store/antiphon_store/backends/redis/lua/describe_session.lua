#!lua flags=no-writes
-- Reads a session as it is now.
-- needs: clock nodes sessions
-- KEYS: the session's key
-- ARGV: now, tree before, tree after
-- Answer: ok, last fence, holder ('' when no lease lives), end of the lease, head id ('' when none)
-- Indivisible: the session, and whether its head's time is over.

local session = read_session(KEYS[1])
local head = head_of(session)
local is_living = is_held(session)
return {'ok', session.last_fence, is_living and session.holder or '', is_living and session.lease_expires or 0,
  head and head.id or ''}
