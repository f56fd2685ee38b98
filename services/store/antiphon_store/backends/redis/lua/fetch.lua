#!lua flags=no-writes
-- Reads one response.
-- needs: clock nodes
-- KEYS: the tree's root
-- ARGV: now, tree before, tree after, id
-- Answer: ok, meta, packed items, body; or a refusal
-- Indivisible: that it is readable, and all its parts.

local tree = tree_of(ARGV[4])
local place = redis.call('HGET', tree .. ':ids', ARGV[4])
local meta = place and redis.call('HGET', tree .. ':meta', place)
if not meta or not is_readable(parse(meta)) then
  return {'response_not_found', ARGV[4]}
end
return {'ok', meta, redis.call('HGET', tree .. ':items', place), redis.call('HGET', tree .. ':body', place)}
