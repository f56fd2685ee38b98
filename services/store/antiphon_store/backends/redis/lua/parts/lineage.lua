-- The shape of a tree: the way to the root, places for new responses, what nothing refers to any more.
--
-- A branch is a run of responses that continue one another. `<tree>:branches` holds for each where it was forked from
-- ('' for a root), and the number of the last one; `<tree>:forks` holds '<place>/<branch>', ordered, for the way down.

local PARTS = {':ids', ':meta', ':items', ':body', ':branches', ':forks'}

local function fork_of(tree, branch)
  return redis.call('HGET', tree .. ':branches', branch)
end

local function split_place(place)
  local branch, depth = string.match(place, '^(%d+):(%d+)$')
  return branch, tonumber(depth)
end

-- The places from the root to the node: one run of depths for each branch on the way.
local function path_to(tree, node)
  local places = {}
  local branch, depth = node.branch, tonumber(node.depth)
  local length = depth + 1
  while true do
    local fork = fork_of(tree, branch)
    local first = 0
    local parent_branch, parent_depth
    if fork ~= '' then
      parent_branch, parent_depth = split_place(fork)
      first = parent_depth + 1
    end
    for each = depth, first, -1 do
      places[each + 1] = branch .. ':' .. each
    end
    if fork == '' then
      return places, length
    end
    branch, depth = parent_branch, parent_depth
  end
end

local function parent_place(tree, node)
  local depth = tonumber(node.depth)
  local fork = fork_of(tree, node.branch)
  if fork == '' then
    return depth > 0 and node.branch .. ':' .. (depth - 1) or nil
  end
  local _, fork_depth = split_place(fork)
  return depth > fork_depth + 1 and node.branch .. ':' .. (depth - 1) or fork
end

-- Sets branch and depth of a new node: behind its parent if nothing is there, else in a branch of its own.
local function take_place(tree, node, parent)
  local depth = parent and tonumber(parent.depth) + 1 or 0
  node.depth = integer(depth)
  if parent and redis.call('HEXISTS', tree .. ':meta', parent.branch .. ':' .. depth) == 0 then
    node.branch = parent.branch
    return
  end
  node.branch = integer(redis.call('HINCRBY', tree .. ':branches', 'last', 1))
  local fork = parent and place_of(parent) or ''
  redis.call('HSET', tree .. ':branches', node.branch, fork)
  if parent then
    redis.call('ZADD', tree .. ':forks', 0, fork .. '/' .. string.format('%012d', node.branch))
  end
end

-- The nodes that continue a node: the next of its branch, and the first of every branch forked from it.
local function children_of(tree, node)
  local depth = integer(tonumber(node.depth) + 1)
  local children = {node_at(tree, node.branch .. ':' .. depth)}
  local place = place_of(node)
  -- '0' is the character after '/'
  for _, member in ipairs(redis.call('ZRANGEBYLEX', tree .. ':forks', '[' .. place .. '/', '(' .. place .. '0')) do
    local branch = integer(tonumber(string.match(member, '/(%d+)$')))
    children[#children + 1] = node_at(tree, branch .. ':' .. depth)
  end
  return children
end

-- The node and everything below it; nil as soon as something of it is kept.
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
  end
  return found
end

local function drop(tree, node)
  local place = place_of(node)
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

-- Lets go of a node and all below it if nothing of that is kept; then the same for its parent.
local function reclaim(tree, node)
  while node do
    local subtree = unkept_subtree(tree, node)
    if not subtree then
      return
    end
    local above = parent_place(tree, node)
    for index = #subtree, 1, -1 do -- parents stand before their children
      drop(tree, subtree[index])
    end
    node = above and node_at(tree, above)
  end
  if redis.call('EXISTS', tree .. ':ids') == 0 then
    redis.call('DEL', tree .. ':branches')
  end
end

-- Lets the server reclaim the whole tree some time after the last of its responses expired. A new end is rounded up to
-- the next hour, so that a busy tree seldom writes it.
local function postpone_end(tree, expires, new_branch)
  local known = redis.call('HGET', tree .. ':branches', 'end')
  local wanted = known
  if expires == NONE then
    wanted = NONE
  elseif known ~= NONE then
    local hour = math.ceil(tonumber(expires) / RECLAIM_GRACE_MS) * RECLAIM_GRACE_MS
    wanted = integer(math.max(known and tonumber(known) or 0, hour))
  end
  if wanted == known and not new_branch then
    return
  end
  redis.call('HSET', tree .. ':branches', 'end', wanted)
  for _, part in ipairs(PARTS) do
    if wanted == NONE then
      redis.call('PERSIST', tree .. part)
    else
      redis.call('PEXPIRE', tree .. part, integer(tonumber(wanted) - now_ms + RECLAIM_GRACE_MS))
    end
  end
end
