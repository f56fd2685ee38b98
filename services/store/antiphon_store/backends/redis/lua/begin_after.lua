#!lua flags=no-writes
-- Begins a turn that continues a response.
-- needs: clock nodes lineage reading
-- KEYS: the tree's root
-- ARGV: now, tree before, tree after, id, max depth, max bytes
-- Answer: ok, metas, packed items, root first; or a refusal
-- Indivisible: that the response is readable, and the chain as of one moment.

local id = ARGV[4]
local tree = tree_of(id)
local node = find(tree, id)
if not node or not is_readable(node) then
  return {'previous_response_not_found', id}
end
local metas, items, refusal = read_history(tree, node, ARGV[5], ARGV[6])
return refusal or {'ok', metas, items}
