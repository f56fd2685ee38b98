-- Responses as they lie in the keys of their tree (keys.py), and what the clock says about them.
-- ARGV[2] and ARGV[3] are what stands before and after the tree tag in the root of a tree's keys.
-- needs: clock

local FIELDS = {
  'id', 'branch', 'depth', 'deleted', 'version', 'status', 'created', 'updated', 'expires', 'parent', 'session',
  'size', 'input_bytes', 'items_crc', 'body_crc',
}
local NONE = '.' -- which no id is
local RECLAIM_GRACE_MS = 3600 * 1000 -- how much longer than readable: room for a clock that is set back
local PLACES_PER_CALL = 256 -- bounds the arguments of one HMGET

-- The root of the keys of a response's tree: 'resp_' and 16 digits of tag begin its id.
local function tree_of(id)
  return ARGV[2] .. string.sub(id, 6, 21) .. ARGV[3]
end

local function place_of(node)
  return node.branch .. ':' .. node.depth
end

local function parse(text)
  local node, index = {}, 1
  for word in string.gmatch(text, '%S+') do
    node[FIELDS[index]] = word
    index = index + 1
  end
  return node
end

local SIZE = '^' .. string.rep('%S+ ', 11) .. '(%S+)' -- the twelfth word

-- The bytes of a node, without parsing the rest of it: chains add up many.
local function size_of(text)
  return tonumber(string.match(text, SIZE))
end

local function node_at(tree, place)
  local text = redis.call('HGET', tree .. ':meta', place)
  return text and parse(text) or nil
end

local function find(tree, id)
  local place = redis.call('HGET', tree .. ':ids', id)
  return place and node_at(tree, place) or nil
end

local function is_expired(node)
  return node.expires ~= NONE and tonumber(node.expires) <= now_ms
end

local function is_readable(node)
  return node.deleted == '0' and not is_expired(node)
end

-- Whether it may still say something: it can be read, but not be continued.
local function is_unfinished(node)
  return node.status == 'queued' or node.status == 'in_progress'
end

-- Whether the node's place in the tree stays for its own sake (base.py).
local function is_kept(tree, node)
  if is_expired(node) then
    return false
  end
  return node.deleted == '0' or redis.call('HEXISTS', tree .. ':heads', node.id) == 1
end

local function format(node)
  local words = {}
  for index, field in ipairs(FIELDS) do
    words[index] = node[field]
  end
  return table.concat(words, ' ')
end

local function save_meta(tree, node)
  redis.call('HSET', tree .. ':meta', place_of(node), format(node))
end

-- The values of so many places, in their order, in as few calls as the size of Lua's stack allows.
local function read_places(key, places)
  local values = {}
  for first = 1, #places, PLACES_PER_CALL do
    local last = math.min(first + PLACES_PER_CALL - 1, #places)
    for _, value in ipairs(redis.call('HMGET', key, unpack(places, first, last))) do
      values[#values + 1] = value
    end
  end
  return values
end
