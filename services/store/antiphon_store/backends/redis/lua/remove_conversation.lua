#!lua flags=allow-oom
-- Ends a conversation; allowed when memory is full, because it makes room.
-- needs: conversations
-- KEYS: the conversation's key, the set of its removed items, its session's key
-- ARGV: now, tree before, tree after, id
-- Answer: ok; or a refusal
-- Indivisible: that nobody holds the lease, conversation, head and removed items, and what is reclaimed because only the head kept it.

local conversation, refusal = find_conversation(ARGV[4])
if refusal then
  return refusal
elseif is_held(read_session(conversation.session_key)) then
  return {'session_locked'}
end
end_conversation(conversation)
return {'ok'}
