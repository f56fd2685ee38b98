#!lua flags=no-writes
-- Begins a turn that continues a response.
-- needs: beginnings
-- KEYS: the tree's root
-- ARGV: now, tree before, tree after, id, the turn (6)
-- Answer: ok and how it began (parts/beginnings.lua); or a refusal
-- Indivisible: that the response is readable and has ended, and the chain as of one moment.

return begin_after(ARGV[4], parse_turn(5))
