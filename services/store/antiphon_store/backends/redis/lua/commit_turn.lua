#!lua
-- Ends a turn in a session.
-- needs: clock nodes lineage sessions writing
-- KEYS: the tree's root, the session's key
-- ARGV: now, tree before, tree after, the write (15)
-- Answer: ok, version, depth, created, updated, expires; or a refusal
-- Indivisible: what `put` is; that the lease lives; the session's head; the end of the lease.

local function move_head(session, id)
  local former = session.head
  redis.call('HSET', session.key, 'head', id)
  release(session)
  redis.call('HINCRBY', tree_of(id) .. ':heads', id, 1)
  if former == '' then
    return
  end
  local tree = tree_of(former)
  if redis.call('HINCRBY', tree .. ':heads', former, -1) <= 0 then
    redis.call('HDEL', tree .. ':heads', former)
  end
  local node = find(tree, former)
  if node then
    reclaim(tree, node)
  end
end

local write = parse_write()
local session = read_session(KEYS[2])
local stamp, refusal = put(write, session, session.head)
if refusal then
  return refusal
end
if holds(session, write.fence) then -- not so when this is a repetition
  move_head(session, write.id)
end
return stamp
