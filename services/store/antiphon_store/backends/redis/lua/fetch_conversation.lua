#!lua flags=no-writes
-- Reads a conversation.
-- needs: conversations
-- KEYS: the conversation's key, the set of its removed items, its session's key
-- ARGV: now, tree before, tree after, id
-- Answer: ok, metadata, version, created, incarnation; or a refusal
-- Indivisible: that it lives, and all its parts.

local conversation, refusal = find_conversation(ARGV[4])
if refusal then
  return refusal
end
local answer = conversation_answer(conversation)
answer[#answer + 1] = conversation.incarnation
return answer
