#!lua
-- Takes a session's lease, or extends it for the holder that has it.
-- needs: clock nodes sessions
-- KEYS: the session's key
-- ARGV: now, tree before, tree after, holder, ttl
-- Answer: ok, fence, holder, end of the lease; or a refusal
-- Indivisible: that nobody else holds it, and the next token.

local session = read_session(KEYS[1])
if not is_open_to(session, ARGV[4]) then
  return {'session_locked'}
end
take(session, ARGV[4], ARGV[5])
return granted(session)
