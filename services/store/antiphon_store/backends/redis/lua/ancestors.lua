#!lua flags=no-writes
-- Finds the ancestors of nodes at a depth.
-- KEYS: the partition's root
-- ARGV: now; the depth; the nodes
-- Answer: ok, the ancestor of each node, or an empty text
-- Indivisible: all of it.

local depth, key = tonumber(ARGV[2]), root .. ':node'
local known, answers = {}, {} -- known: node -> its ancestor, or an empty text

local function ancestor_of(id)
  local path, last = {}, math.huge
  while id and not known[id] do
    local text = redis.call('HGET', key, id)
    local at = text and tonumber(field(text, 'depth'))
    if at and at >= last then -- a damaged row may name a descendant as its parent, without an end
      error('a stored response has an ancestor at its own depth or below')
    end
    last = at
    if at and at > depth then
      path[#path + 1] = id
      id = plain(field(text, 'parent'))
    else
      known[id] = at == depth and id or ''
    end
  end
  local found = id and known[id] or ''
  for _, each in ipairs(path) do
    known[each] = found
  end
  return found
end

for index = 3, #ARGV do
  answers[#answers + 1] = ancestor_of(ARGV[index])
end
return {'ok', answers}
