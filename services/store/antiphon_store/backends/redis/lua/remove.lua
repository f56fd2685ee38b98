#!lua flags=allow-oom
-- Makes a response unreadable; allowed when memory is full, because it makes room.
-- needs: clock nodes lineage sessions writing
-- KEYS: the tree's root; the session's key when there is a fence
-- ARGV: now, tree before, tree after, id, version, statuses, unless statuses, fence
-- Answer: ok; or a refusal
-- Indivisible: fence, precondition, the mark, and what is reclaimed because nothing kept descends from it.

local tree = tree_of(ARGV[4])
local node = find(tree, ARGV[4])
if not node or not is_readable(node) then
  return {'response_not_found', ARGV[4]}
end
if KEYS[2] and not holds(read_session(KEYS[2]), ARGV[8]) then
  return {'stale_fence', ARGV[8]}
end
local condition = {version = ARGV[5], statuses = ARGV[6], unless_statuses = ARGV[7]}
local refusal = refused_precondition(node, condition)
if refusal then
  return refusal
end
node.deleted = '1'
save_meta(tree, node)
reclaim(tree, node)
return {'ok'}
