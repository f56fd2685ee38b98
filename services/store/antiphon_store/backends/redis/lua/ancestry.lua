#!lua flags=no-writes
-- Reads a response and all its ancestors.
-- needs: clock nodes lineage reading
-- KEYS: the tree's root
-- ARGV: now, tree before, tree after, id, max depth, max bytes
-- Answer: ok, metas, packed items, bodies, root first; or a refusal
-- Indivisible: the chain as of one moment.

local id, max_depth, max_bytes = ARGV[4], ARGV[5], ARGV[6]
local tree = tree_of(id)
local node = find(tree, id)
if not node or not is_readable(node) then
  return {'response_not_found', id}
end
local places, metas, refusal = read_metas(tree, node, max_depth)
if refusal then
  return refusal
end
local size = 0
for _, meta in ipairs(metas) do
  size = size + size_of(meta)
end
if size > tonumber(max_bytes) then
  return {'too_many_bytes', id, max_bytes}
end
return {'ok', metas, read_places(tree .. ':items', places), read_places(tree .. ':body', places)}
