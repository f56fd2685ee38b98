#!lua flags=allow-oom
-- Makes a response unreadable; allowed when memory is full, because it makes room.
-- needs: clock nodes lineage sessions jobs fences event_logs writing
-- KEYS: the tree's root; the keys of a job and a session when there is a fence
-- ARGV: now, tree before, tree after, id, version, statuses, unless statuses, id and token of the fence
-- Answer: ok; or a refusal
-- Indivisible: fence, precondition, the mark, and what is reclaimed because nothing kept descends from it.

local tree = tree_of(ARGV[4])
local node = find(tree, ARGV[4])
if not node or not is_readable(node) then
  return {'response_not_found', ARGV[4]}
end
local condition = {version = ARGV[5], statuses = ARGV[6], unless_statuses = ARGV[7]}
local refusal = refused_fence({fence_at(2, ARGV[8], ARGV[9])}) or refused_precondition(node, condition)
if refusal then
  return refusal
end
node.deleted = '1'
save_meta(tree, node)
unfile(tree, node)
reclaim(tree, node)
return {'ok'}
