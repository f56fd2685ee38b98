#!lua flags=no-writes
-- Finds the responses that items are in, and the additions to conversations.
-- needs: clock nodes lineage sessions catalogue
-- KEYS: the tenant's root
-- ARGV: now, tree before, tree after, bytes to stop after, where a call before this one stopped looking for the first
-- item ('': nowhere), quoted item ids
-- Answer: ok, metas, packed items of responses; for each item so far the number of its response (0: none); where this
-- call stopped looking for the next item, '' at its beginning
-- Indivisible: all that one call says; it says less than all when that is more than one script may read.

local LOOKS_PER_SCRIPT = 4096
local EMPTY_ITEM_ID = '%' -- calls.py
local metas, items, owners = {}, {}, {}
local numbers, size, looks = {}, 0, 0

local function number_of(node, tree)
  if not numbers[node.id] then
    local packed = redis.call('HGET', tree .. ':items', place_of(node))
    metas[#metas + 1], items[#items + 1] = format(node), packed
    size = size + #(packed or '')
    numbers[node.id] = #metas
  end
  return numbers[node.id]
end

local function unquoted(item_id)
  return item_id == EMPTY_ITEM_ID and '' or (string.gsub(item_id, '%%(%x%x)', function(digits)
    return string.char(tonumber(digits, 16))
  end))
end

-- Whether an addition stands in the context of the conversation that it was made to, and with it the item.
local function is_in_context(tree, node, item_id)
  if redis.call('SISMEMBER', tree .. ':removed:' .. node.session, unquoted(item_id)) == 1 then
    return false
  end
  local head = head_of(read_session(tree .. ':session:' .. node.session))
  return head ~= nil and is_behind(tree, node, head)
end

-- The node that an item is found in, and its tree.
local function owner(member, item_id)
  local tree = tree_of(item_owner(member))
  local node = find(tree, item_owner(member))
  if node and not is_expired(node) and (node.deleted == '0' or is_in_context(tree, node, item_id)) then
    return node, tree
  end
end

-- The number of the first readable response with the item, 0 if there is none; or nil and where it stopped.
local function owner_of(item_id, stopped)
  while true do
    local members = redis.call('ZRANGE', item_key(item_id), stopped == '' and '-' or '(' .. stopped, '+', 'BYLEX',
      'LIMIT', 0, PLACES_PER_CALL)
    for _, member in ipairs(members) do
      local node, tree = owner(member, item_id)
      if node then
        return number_of(node, tree)
      end
      stopped, looks = member, looks + 1
    end
    if #members < PLACES_PER_CALL then
      return 0
    elseif looks >= LOOKS_PER_SCRIPT then
      return nil, stopped
    end
  end
end

local stopped = ARGV[5]
for index = 6, #ARGV do
  local number, stopped_here = owner_of(ARGV[index], stopped)
  if not number then
    return {'ok', metas, items, owners, stopped_here}
  end
  owners[#owners + 1], stopped = number, ''
  if size > tonumber(ARGV[4]) then
    break
  end
end
return {'ok', metas, items, owners, ''}
