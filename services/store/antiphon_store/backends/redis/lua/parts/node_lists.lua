-- The indexes of all nodes (rows/model.py: LEVEL and CREATED). Their names end with an empty key.

-- The entries of a node: its member and score in LEVEL, and its score in CREATED, where its id is the member.
local function listing_of(id, text)
  local created = tonumber(field(text, 'created'))
  return string.format('%015.0f/', created) .. id, field(text, 'depth'), integer(created)
end

local function list_node(id, text)
  local member, depth, created = listing_of(id, text)
  redis.call('ZADD', root .. ':level:', depth, member)
  redis.call('ZADD', root .. ':created:', created, id)
end

local function unlist_node(id, text)
  redis.call('ZREM', root .. ':level:', (listing_of(id, text)))
  redis.call('ZREM', root .. ':created:', id)
end
