#!lua
-- Ends a turn in a session.
-- needs: commits
-- KEYS: the tree's root, the keys of a job and of the session by the session's id; those of the precondition's fence
-- when it has one
-- ARGV: now, tree before, tree after, the write, id and token of the session's fence
-- Answer: ok, version, depth, created, updated, expires; or a refusal
-- Indivisible: what `put` is; that the lease lives as well; the session's head; the end of the lease.

local write, rest = parse_write()
local fence, other = fence_at(2, ARGV[rest], ARGV[rest + 1]), fence_at(4, write.fence_id, write.fence_token)
local stamp, refusal = commit(write, fence, other)
return refusal or stamp
