#!lua
-- Lists nodes that a release without these indexes has written, or that it has deleted.
-- KEYS: the partition's root
-- ARGV: now; the position of a scan of all nodes, 0 for the first; how many nodes
-- Answer: ok, the next position, 0 after the last
-- Indivisible: one part of the scan. Nodes that are written or deleted meanwhile are listed by the program that does it.

local key, position = root .. ':node', ARGV[2]
if position == '0' and redis.call('ZCARD', root .. ':level:') >= redis.call('HLEN', key) then
  redis.call('UNLINK', root .. ':level:', root .. ':created:')
end
local next_position, lines = unpack(redis.call('HSCAN', key, position, 'COUNT', ARGV[3]))
for place = 1, #lines, 2 do
  list_node(lines[place], lines[place + 1])
end
return {'ok', next_position}
