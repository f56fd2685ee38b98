#!lua
-- Takes an item out of a conversation's context.
-- needs: conversations contexts
-- KEYS: the conversation's key, the set of its removed items, its session's key
-- ARGV: now, tree before, tree after, id, the bounds (3) and state of parts/contexts.lua, id of the item
-- Answer: ok and `done`, metadata, version, created, or a context to look at, in which the caller has to find the item
-- first; or a refusal
-- Indivisible: that the item is in the context that the caller saw, or taken out already, and the mark.

local item_id = ARGV[9]
local conversation, refusal = find_conversation(ARGV[4])
if refusal then
  return refusal
end
local is_removed = redis.call('SISMEMBER', conversation.removed_key, item_id) == 1
if not is_removed then
  local context
  context, refusal = read_context(read_session(conversation.session_key), conversation.removed_key, parse_bounds(5))
  if refusal then
    return refusal
  elseif not context.is_seen then
    return to_look_at(context)
  end
end
redis.call('SADD', conversation.removed_key, item_id)
save_conversation(conversation) -- also when it was out: for the replicas, as in parts/writing.lua
local answer = conversation_answer(conversation)
table.insert(answer, 2, 'done')
return answer
