#!lua
-- Inserts or replaces one response.
-- needs: clock nodes lineage sessions jobs fences event_logs writing
-- KEYS: the tree's root; the keys of a job and a session when the precondition has a fence
-- ARGV: now, tree before, tree after, the write
-- Answer: ok, version, depth, created, updated, expires; or a refusal
-- Indivisible: fence, precondition, readable parent, the place in the tree, the end of the log.

local write = parse_write()
local stamp, refusal = put(write, {fence_at(2, write.fence_id, write.fence_token)})
return refusal or stamp
