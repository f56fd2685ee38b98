#!lua flags=no-writes
-- Reads several responses.
-- needs: clock nodes catalogue
-- KEYS: the root of the tree of one of them
-- ARGV: now, tree before, tree after, max bytes, ids
-- Answer: ok, metas, packed items, bodies of the readable ones, in the order of the ids; metas alone when the rest is
-- too large
-- Indivisible: all of them as of one moment.

local metas, items, bodies = {}, {}, {}
local found, size = {}, 0
for index = 5, #ARGV do
  local node, tree = readable(ARGV[index])
  if node then
    found[#found + 1] = {tree, place_of(node)}
    metas[#metas + 1] = format(node)
    size = size + tonumber(node.size)
  end
end
if size <= tonumber(ARGV[4]) then
  for index, each in ipairs(found) do
    items[index] = redis.call('HGET', each[1] .. ':items', each[2])
    bodies[index] = redis.call('HGET', each[1] .. ':body', each[2])
  end
end
return {'ok', metas, items, bodies}
