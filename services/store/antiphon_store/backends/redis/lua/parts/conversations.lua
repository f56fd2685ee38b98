-- A conversation: a hash, `:conversation:ID`, and the set of the items that were taken out of it, `:removed:ID`, beside
-- its session. backends/conversations.py says what may become of it.
--
-- Where nothing is swept (parts/ends.lua) the server gives the hash back by itself some time after its end, and the
-- session remembers that there was a conversation: whoever makes it anew ends the former one first, swept or not.
-- needs: nodes sessions ends jobs fences event_logs writing heads

local CONVERSATION_FIELDS = {'metadata', 'version', 'created', 'expires', 'origin', 'incarnation'}

-- A conversation that may be stored: its keys.
local function conversation_of(id)
  local root = tree_of(id)
  return {id = id, key = root .. ':conversation:' .. id, removed_key = root .. ':removed:' .. id,
    session_key = root .. ':session:' .. id}
end

local function is_over(conversation)
  return conversation.expires ~= NONE and tonumber(conversation.expires) <= now_ms
end

-- A conversation that is stored, its time over or not.
local function stored_conversation(id)
  local conversation = conversation_of(id)
  local values = redis.call('HMGET', conversation.key, unpack(CONVERSATION_FIELDS))
  if not values[1] then
    local former_end = redis.call('HGET', conversation.session_key, 'conversation_end')
    conversation.expires = former_end
    return former_end and is_over(conversation) and conversation or nil
  end
  for index, field in ipairs(CONVERSATION_FIELDS) do
    conversation[field] = values[index]
  end
  return conversation
end

-- A living conversation, or nil and the refusal.
local function find_conversation(id)
  local conversation = stored_conversation(id)
  if not conversation or is_over(conversation) then
    return nil, {'conversation_not_found', id}
  end
  return conversation
end

local function save_conversation(conversation)
  local values = {}
  for _, field in ipairs(CONVERSATION_FIELDS) do
    values[#values + 1] = field
    values[#values + 1] = conversation[field]
  end
  redis.call('HSET', conversation.key, unpack(values))
end

-- Files when a new conversation is over.
local function file_conversation_end(conversation)
  file_end('c', conversation.id, conversation.expires)
  if IS_SPREAD and conversation.expires ~= NONE then
    redis.call('PEXPIRE', conversation.key, integer(tonumber(conversation.expires) - now_ms + RECLAIM_GRACE_MS))
    redis.call('HSET', conversation.session_key, 'conversation_end', conversation.expires)
  end
end

local function conversation_answer(conversation)
  return {'ok', conversation.metadata, tonumber(conversation.version), tonumber(conversation.created)}
end

-- The refusal of items to be added in a session: under the token of its lease, or a dot.
local function refused_addition(conversation, session, token)
  if token == NONE then
    return is_held(session) and {'session_locked'} or nil
  end
  return not holds(session, token) and {'stale_fence', conversation.id, token} or nil
end

-- A node of items behind the session's head, deleted from the start, and the new head. It lives as long as the
-- conversation. The refusal, if it cannot be.
local function append_hidden(conversation, session, write)
  local head = head_of(session)
  local tree = tree_of(write.id)
  write.deleted = '1'
  write.parent = head and head.id or NONE
  write.ttl_ms = conversation.expires ~= NONE and integer(tonumber(conversation.expires) - now_ms) or NONE
  local stamp, refusal = insert(tree, find(tree, write.id), write, {[session.head] = true})
  if stamp then
    move_head(session, write.id)
  end
  return refusal
end

-- Lets go of a conversation that is stored, its time over or not, and of what it kept. The fencing token stays used.
local function end_conversation(conversation)
  local session = read_session(conversation.session_key)
  redis.call('DEL', conversation.key, conversation.removed_key)
  redis.call('HDEL', conversation.session_key, 'conversation_end')
  unfile_end('c', conversation.id)
  release(session)
  move_head(session, '')
end
