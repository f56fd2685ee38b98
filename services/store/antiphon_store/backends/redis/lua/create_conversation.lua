#!lua
-- Makes a conversation, with its first items.
-- needs: conversations
-- KEYS: the conversation's key, the set of its removed items, its session's key
-- ARGV: now, tree before, tree after; the write when there are first items; id, metadata, origin, incarnation, ttl (or
-- a dot)
-- Answer: ok, metadata, version, created; or a refusal
-- Indivisible: whether it was made before, the end of an expired one of that id, the conversation, its first items.

local write, first = nil, 4
if #ARGV > 8 then
  write, first = parse_write()
end
local id, metadata, origin, incarnation, ttl_ms = unpack(ARGV, first, first + 4)
local former = stored_conversation(id)
if former and not is_over(former) then
  if former.origin ~= origin then
    return {'already_exists', id}
  end
  save_conversation(former) -- for the replicas, as in parts/writing.lua
  return conversation_answer(former)
end
if write and not former and is_held(read_session(KEYS[3])) then
  return {'session_locked'}
end
if former then
  end_conversation(former)
end
local conversation = conversation_of(id)
conversation.metadata, conversation.version, conversation.created = metadata, '1', integer(now_ms)
conversation.expires = ttl_ms ~= NONE and integer(now_ms + tonumber(ttl_ms)) or NONE
conversation.origin, conversation.incarnation = origin, incarnation
local refusal = write and append_hidden(conversation, read_session(KEYS[3]), write)
if refusal then
  return refusal
end
save_conversation(conversation)
file_conversation_end(conversation)
return conversation_answer(conversation)
