-- Chains, with their limits: over one is a refusal, before more is read than the limit allows.

-- The metas of the places from the root to the node, or a refusal when they are too many.
local function read_metas(tree, node, max_depth)
  if tonumber(node.depth) + 1 > tonumber(max_depth) then
    return nil, nil, {'too_many_responses', node.id, max_depth}
  end
  local places = path_to(tree, node)
  return places, read_places(tree .. ':meta', places)
end

-- What a turn after the node needs: metas and packed items, root first. The size is that of the items as one array.
local function read_history(tree, node, max_depth, max_bytes)
  local places, metas, refusal = read_metas(tree, node, max_depth)
  if refusal then
    return nil, nil, refusal
  end
  local items, size, parts = {}, 2, 0
  for first = 1, #places, PLACES_PER_CALL do
    local some = {unpack(places, first, math.min(first + PLACES_PER_CALL - 1, #places))}
    for _, packed in ipairs(read_places(tree .. ':items', some)) do
      items[#items + 1] = packed
      if packed and packed ~= '' then
        size = size + #packed + (parts > 0 and 1 or 0)
        parts = parts + 1
      end
    end
    if size > tonumber(max_bytes) then
      return nil, nil, {'too_many_bytes', node.id, max_bytes}
    end
  end
  return metas, items
end
