#!lua flags=no-writes
-- Reads the shape of what lies below a response, or below the root of its tree.
-- needs: clock nodes lineage
-- KEYS: the tree's root
-- ARGV: now, tree before, tree after, id, whether from the root, most nodes
-- Answer: ok, metas (one more than the most when there are more), whether each is readable; or a refusal
-- Indivisible: that the response is readable, and the whole as of one moment.

local tree = tree_of(ARGV[4])
local start = find(tree, ARGV[4])
if not start or not is_readable(start) then
  return {'response_not_found', ARGV[4]}
end
if ARGV[5] == '1' then
  start = node_at(tree, path_to(tree, start)[1])
end
local metas, readable, waiting = {}, {}, {start}
while #waiting > 0 and #metas <= tonumber(ARGV[6]) do
  local node = table.remove(waiting)
  metas[#metas + 1] = format(node)
  readable[#readable + 1] = is_readable(node) and 1 or 0
  for _, child in ipairs(children_of(tree, node)) do
    waiting[#waiting + 1] = child
  end
end
return {'ok', metas, readable}
