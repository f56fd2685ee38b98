-- The shape of a tree: the way to the root and down, places for new responses.
--
-- A branch is a run of responses that continue one another. `<tree>:branches` holds for each where it was forked from
-- ('' for a root), and the number of the last one; `<tree>:forks` holds '<place>/<branch>', ordered, for the way down.
-- needs: nodes

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

-- Whether a node is on the way from the root to another one of its tree, or is that one.
local function is_behind(tree, node, other)
  local branch, depth = other.branch, tonumber(other.depth)
  while branch and branch ~= node.branch do
    branch, depth = split_place(fork_of(tree, branch))
  end
  return branch ~= nil and tonumber(node.depth) <= depth
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

local function has_children(tree, node)
  local place = place_of(node)
  return redis.call('HEXISTS', tree .. ':meta', node.branch .. ':' .. integer(tonumber(node.depth) + 1)) == 1
    or #redis.call('ZRANGEBYLEX', tree .. ':forks', '[' .. place .. '/', '(' .. place .. '0', 'LIMIT', 0, 1) > 0
end
