#!lua flags=allow-oom
-- Ends a conversation; allowed when memory is full, because it makes room.
-- needs: conversations
-- KEYS: the conversation's key, the set of its removed items, its session's key
-- ARGV: now, tree before, tree after, id
-- Answer: ok; or a refusal
-- Indivisible: conversation, lease, head and removed items, and what is reclaimed because only the head kept it.

local conversation, refusal = find_conversation(ARGV[4])
if refusal then
  return refusal
end
end_conversation(conversation)
return {'ok'}
