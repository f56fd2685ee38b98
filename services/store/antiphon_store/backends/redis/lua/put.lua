#!lua
-- Inserts or replaces one response.
-- needs: clock nodes lineage sessions writing
-- KEYS: the tree's root; the session's key when the write carries a fence
-- ARGV: now, tree before, tree after, the write (15)
-- Answer: ok, version, depth, created, updated, expires; or a refusal
-- Indivisible: fence, precondition, readable parent, the place in the tree.

local session = KEYS[2] and read_session(KEYS[2]) or nil
local stamp, refusal = put(parse_write(), session, nil)
return refusal or stamp
