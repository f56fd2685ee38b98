#!lua
-- Begins a turn in a session.
-- needs: beginnings
-- KEYS: the session's key, the set of its removed items
-- ARGV: now, tree before, tree after, the turn (6)
-- Answer: ok and how it began (parts/beginnings.lua); or a refusal
-- Indivisible: the lease and the history, without what was taken out of it: a refused history takes no lease.

return begin_in_session(read_session(KEYS[1]), KEYS[2], parse_turn(4))
