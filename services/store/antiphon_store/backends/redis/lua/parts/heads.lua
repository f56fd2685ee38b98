-- The head of a session: the node that its next turn continues. A head is kept (base.py), so heads are counted.
-- needs: nodes sessions lineage reclaiming

-- The head becomes this node, '' for none. What only the former one kept is reclaimed.
local function move_head(session, id)
  local former = session.head
  session.head = id
  redis.call('HSET', session.key, 'head', id)
  if id ~= '' then
    redis.call('HINCRBY', tree_of(id) .. ':heads', id, 1)
  end
  if former == '' then
    return
  end
  local tree = tree_of(former)
  if redis.call('HINCRBY', tree .. ':heads', former, -1) <= 0 then
    redis.call('HDEL', tree .. ':heads', former)
  end
  local node = find(tree, former)
  if node then
    reclaim(tree, node)
  end
end
