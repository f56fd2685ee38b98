-- A page of nodes that stand side by side: the readable ones, by birth and id.

local function comes_before(created, id, other_created, other_id)
  if created ~= other_created then
    return created < other_created
  end
  return id < other_id
end

local function count_readable(nodes)
  local count = 0
  for _, node in ipairs(nodes) do
    if is_readable(node) then
      count = count + 1
    end
  end
  return count
end

-- So many of the nodes behind the place where the page before ended ('.': the first): pairs of meta and number of
-- readable children, and whether there are more.
local function page_of(tree, nodes, after_created, after_id, limit)
  local rest = {}
  for _, node in ipairs(nodes) do
    local is_behind = after_id == NONE
      or comes_before(tonumber(after_created), after_id, tonumber(node.created), node.id)
    if is_readable(node) and is_behind then
      rest[#rest + 1] = node
    end
  end
  table.sort(rest, function(one, other)
    return comes_before(tonumber(one.created), one.id, tonumber(other.created), other.id)
  end)
  local metas, counts = {}, {}
  for index = 1, math.min(#rest, limit) do
    metas[index] = format(rest[index])
    counts[index] = count_readable(children_of(tree, rest[index]))
  end
  return {'ok', metas, counts, #rest > limit and 1 or 0}
end
