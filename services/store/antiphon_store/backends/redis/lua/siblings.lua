#!lua flags=no-writes
-- Reads a page of the responses that continue the same one as a response.
-- needs: clock nodes lineage pages
-- KEYS: the tree's root
-- ARGV: now, tree before, tree after, id, birth and id where the page before ended, limit
-- Answer: ok, metas, numbers of readable children, whether there are more; or a refusal
-- Indivisible: that the response is readable, and the page as of one moment.

local tree = tree_of(ARGV[4])
local node = find(tree, ARGV[4])
if not node or not is_readable(node) then
  return {'response_not_found', ARGV[4]}
end
local others = {}
local above = parent_place(tree, node)
for _, each in ipairs(above and children_of(tree, node_at(tree, above)) or {}) do
  if each.id ~= node.id then
    others[#others + 1] = each
  end
end
return page_of(tree, others, ARGV[5], ARGV[6], tonumber(ARGV[7]))
