#!lua
-- Replaces the metadata of a conversation.
-- needs: conversations
-- KEYS: the conversation's key, the set of its removed items, its session's key
-- ARGV: now, tree before, tree after, id, metadata, expected version (or a dot)
-- Answer: ok, metadata, version, created; or a refusal
-- Indivisible: whether it was done before, the version, the metadata.

local metadata, expected = ARGV[5], ARGV[6]
local conversation, refusal = find_conversation(ARGV[4])
if refusal then
  return refusal
end
local version = tonumber(conversation.version)
local is_current = expected == NONE or tonumber(expected) == version
local is_done = metadata == conversation.metadata and (is_current or tonumber(expected) == version - 1)
if not is_done then
  if not is_current then
    return {'version_mismatch', conversation.id, expected, conversation.version}
  end
  conversation.metadata, conversation.version = metadata, integer(version + 1)
end
save_conversation(conversation) -- also when it was done: for the replicas, as in parts/writing.lua
return conversation_answer(conversation)
