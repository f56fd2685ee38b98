#!lua flags=no-writes
-- Reads the context of a conversation.
-- needs: conversations contexts
-- KEYS: the conversation's key, the set of its removed items, its session's key
-- ARGV: now, tree before, tree after, id, the bounds (3) and state of parts/contexts.lua
-- Answer: ok and a context to look at (parts/contexts.lua); or a refusal
-- Indivisible: that it lives, and the context as of one moment.

local conversation, refusal = find_conversation(ARGV[4])
if refusal then
  return refusal
end
local context
context, refusal = read_context(read_session(conversation.session_key), conversation.removed_key, parse_bounds(5))
return refusal or to_look_at(context)
