-- Where responses are found besides by their ids: by the session that they were made in, and by their items. Of what was
-- deleted only additions to conversations are filed, by their items; what expired is passed over until it is swept.
--
--   `:made:SESSION`  members of birth, depth and id, all at score 0: their order is that of the characters
--   `:item:ITEM`     members of birth and id, in the same way; item ids are quoted
--
-- Items are not filed when a tenant is spread over slots: there is no slot that all its responses share.
-- needs: ends

local BIRTH_DIGITS, DEPTH_DIGITS = 11, 5 -- hexadecimal; a member has 64 characters, up to which Redis packs them
local PREFIX = 'resp_'

-- The sorted set of a session's responses. Where trees have slots, it is in that of its tree.
local function made_key(tree, session_id)
  return (IS_SPREAD and tree or TENANT) .. ':made:' .. session_id
end

local function item_key(item_id)
  return TENANT .. ':item:' .. item_id
end

local function hexadecimal(number, digits)
  return string.format('%0' .. digits .. 'x', tonumber(number))
end

local function made_member(created, depth, id)
  return hexadecimal(created, BIRTH_DIGITS) .. hexadecimal(depth, DEPTH_DIGITS) .. string.sub(id, #PREFIX + 1)
end

local function made_id(member)
  return PREFIX .. string.sub(member, BIRTH_DIGITS + DEPTH_DIGITS + 1)
end

local function item_member(node)
  return hexadecimal(node.created, BIRTH_DIGITS) .. string.sub(node.id, #PREFIX + 1)
end

local function item_owner(member)
  return PREFIX .. string.sub(member, BIRTH_DIGITS + 1)
end

local function name_in_ends(node)
  return string.sub(node.id, #PREFIX + 1, 21) .. place_of(node)
end

local function readable(id)
  local tree = tree_of(id)
  local node = find(tree, id)
  if node and is_readable(node) then
    return node, tree
  end
end

-- Files a node under its session, if it was made there, and under its items, as they are now.
local function file(tree, node, item_ids)
  if node.session ~= NONE and node.deleted == '0' then
    redis.call('ZADD', made_key(tree, node.session), 0, made_member(node.created, node.depth, node.id))
  end
  if item_ids == '' or IS_SPREAD then
    return
  end
  redis.call('HSET', tree .. ':item_ids', place_of(node), item_ids)
  for item_id in string.gmatch(item_ids, '%S+') do
    redis.call('ZADD', item_key(item_id), 0, item_member(node))
  end
end

local function unfile(tree, node)
  if node.session ~= NONE then
    redis.call('ZREM', made_key(tree, node.session), made_member(node.created, node.depth, node.id))
  end
  local place = place_of(node)
  local item_ids = not IS_SPREAD and redis.call('HGET', tree .. ':item_ids', place)
  if not item_ids then
    return
  end
  redis.call('HDEL', tree .. ':item_ids', place)
  for item_id in string.gmatch(item_ids, '%S+') do
    redis.call('ZREM', item_key(item_id), item_member(node))
  end
end

-- The refusal of one more response in a session that made as many readable ones as it may. What expired is taken out of
-- the list on the way, so that nobody counts it twice.
local function refused_crowd(tree, session_id, most)
  if session_id == NONE or most == NONE then
    return nil
  end
  local key = made_key(tree, session_id)
  if redis.call('ZCARD', key) < tonumber(most) then
    return nil
  end
  local count = 0
  while count < tonumber(most) do
    local members = redis.call('ZRANGE', key, count, count + PLACES_PER_CALL - 1)
    if #members == 0 then
      return nil
    end
    for _, member in ipairs(members) do
      if readable(made_id(member)) then
        count = count + 1
      else
        redis.call('ZREM', key, member)
      end
    end
  end
  return {'session_is_full', session_id, integer(count), most}
end
