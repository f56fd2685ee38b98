#!lua
-- Moves a response to another status.
-- needs: clock nodes lineage sessions jobs fences event_logs writing
-- KEYS: the tree's root; the keys of a job and a session when there is a fence
-- ARGV: now, tree before, tree after, id, status, version, statuses, unless statuses, id and token of the fence
-- Answer: ok, version, depth, created, updated, expires; or a refusal
-- Indivisible: whether it was done before, fence, precondition, the status and the next version.

local id, status = ARGV[4], ARGV[5]
local condition = {version = ARGV[6], statuses = ARGV[7], unless_statuses = ARGV[8]}
local tree = tree_of(id)
local node = find(tree, id)
if not node or not is_readable(node) then
  return {'response_not_found', id}
end
local is_done = node.status == status
  and (condition.version == NONE
    or condition.version ~= '0' and tonumber(condition.version) == tonumber(node.version) - 1)
if is_done then
  save_meta(tree, node) -- for the replicas, as in parts/writing.lua
  return stamp_of(node)
end
local refusal = refused_fence({fence_at(2, ARGV[9], ARGV[10])}) or refused_precondition(node, condition)
if refusal then
  return refusal
end
node.status, node.version, node.updated = status, integer(tonumber(node.version) + 1), integer(now_ms)
save_meta(tree, node)
return stamp_of(node)
