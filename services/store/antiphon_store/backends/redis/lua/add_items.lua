#!lua
-- Adds items to a conversation.
-- needs: conversations
-- KEYS: the conversation's key, the set of its removed items, its session's key
-- ARGV: now, tree before, tree after, the write, id, incarnation that the write's id was computed from, token of the
-- fence (or a dot)
-- Answer: ok and `added`, or `again`, meta, packed items, body of the addition that was made before, or `another`: the
-- conversation is another incarnation; or a refusal
-- Indivisible: that it was not made before, that the lease is free or the fence's, the node and the new head.

local write, rest = parse_write()
local conversation, refusal = find_conversation(ARGV[rest])
if refusal then
  return refusal
end
if conversation.incarnation ~= ARGV[rest + 1] then
  return {'ok', 'another'}
end
local tree = tree_of(write.id)
local existing = find(tree, write.id)
if existing then
  save_meta(tree, existing) -- for the replicas, as in parts/writing.lua
  local place = place_of(existing)
  return {'ok', 'again', format(existing), redis.call('HGET', tree .. ':items', place),
    redis.call('HGET', tree .. ':body', place)}
end
local session = read_session(conversation.session_key)
refusal = refused_addition(conversation, session, ARGV[rest + 2]) or append_hidden(conversation, session, write)
return refusal or {'ok', 'added'}
