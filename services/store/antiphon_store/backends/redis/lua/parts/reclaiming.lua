-- Giving space back: what nothing refers to any more goes, with all that is stored of it.
-- needs: lineage catalogue

local PARTS = {':ids', ':meta', ':items', ':body', ':branches', ':forks'}
local DROPPED_PER_SCRIPT = 1000
local NODES_BELOW_MAX = 10000

-- The node and everything below it; nil as soon as something of it is kept. More than the most is a refusal: one script
-- must not take long, and the sweeper will have been there soon.
local function unkept_subtree(tree, node)
  local found, waiting = {}, {node}
  while #waiting > 0 do
    local each = table.remove(waiting)
    if is_kept(tree, each) then
      return nil
    end
    found[#found + 1] = each
    for _, child in ipairs(children_of(tree, each)) do
      waiting[#waiting + 1] = child
    end
    if #found + #waiting > NODES_BELOW_MAX then
      return nil, {'much_to_sweep', node.id}
    end
  end
  return found
end

-- Lets go of all that is stored of a node.
local function drop(tree, node)
  local place = place_of(node)
  unfile(tree, node)
  unfile_end('n', name_in_ends(node))
  local fork = fork_of(tree, node.branch)
  redis.call('HDEL', tree .. ':ids', node.id)
  for _, part in ipairs({':meta', ':items', ':body'}) do
    redis.call('HDEL', tree .. part, place)
  end
  local _, fork_depth = split_place(fork)
  if tonumber(node.depth) == (fork_depth or -1) + 1 then -- the first of its branch, and so the last to go
    redis.call('HDEL', tree .. ':branches', node.branch)
    redis.call('ZREM', tree .. ':forks', fork .. '/' .. string.format('%012d', node.branch))
  end
end

local function forget_empty_tree(tree)
  if redis.call('EXISTS', tree .. ':ids') == 0 then
    redis.call('DEL', tree .. ':branches')
  end
end

local function is_reclaimable(tree, node)
  return not is_kept(tree, node) and not has_children(tree, node)
end

-- Lets go of a node that nothing continues and nothing keeps, then of its parent if that is now such a one, and so on:
-- at most so many; the next one is left to the sweeper. Returns how many, and the bytes of their content.
local function drop_upwards(tree, node, most)
  local count, size = 0, 0
  while node and is_reclaimable(tree, node) do
    if count == most then
      file_end('n', name_in_ends(node), integer(now_ms))
      break
    end
    local above = parent_place(tree, node)
    drop(tree, node)
    count, size = count + 1, size + tonumber(node.size)
    node = above and node_at(tree, above)
  end
  forget_empty_tree(tree)
  return count, size
end

-- What has to be done when a node may have lost what kept it.
local function reclaim(tree, node)
  drop_upwards(tree, node, DROPPED_PER_SCRIPT)
end

-- Makes room for an id that is stored and cannot be read: whether nothing kept was below, and all of it is gone. Or a
-- refusal.
local function clear(tree, node)
  local subtree, refusal = unkept_subtree(tree, node)
  if not subtree then
    return false, refusal
  end
  local above = parent_place(tree, node)
  for index = #subtree, 1, -1 do -- parents stand before their children
    drop(tree, subtree[index])
  end
  forget_empty_tree(tree)
  if above then
    reclaim(tree, node_at(tree, above))
  end
  return true
end

local function keep_until(key, at_ms)
  if at_ms == NONE then
    redis.call('PERSIST', key)
  else
    redis.call('PEXPIRE', key, integer(tonumber(at_ms) - now_ms + RECLAIM_GRACE_MS))
  end
end

-- The server reclaims a tree of a spread tenant some time after the last of its responses expired. A new end is rounded
-- up to the next hour, so that a busy tree seldom writes it.
local function postpone_end(tree, node, new_branch)
  local known = redis.call('HGET', tree .. ':branches', 'end')
  local wanted = known
  if node.expires == NONE then
    wanted = NONE
  elseif known ~= NONE then
    local hour = math.ceil(tonumber(node.expires) / RECLAIM_GRACE_MS) * RECLAIM_GRACE_MS
    wanted = integer(math.max(known and tonumber(known) or 0, hour))
  end
  if node.session ~= NONE then
    keep_until(made_key(tree, node.session), wanted)
  end
  if wanted == known and not new_branch then
    return
  end
  redis.call('HSET', tree .. ':branches', 'end', wanted)
  for _, part in ipairs(PARTS) do
    keep_until(tree .. part, wanted)
  end
end

-- Files when a node's time is over, in the way that the tenant's data lie.
local function limit_life(tree, node, new_branch)
  if IS_SPREAD then
    postpone_end(tree, node, new_branch)
  else
    file_end('n', name_in_ends(node), node.expires)
  end
end
