#!lua flags=no-writes
-- Reads the children of nodes, one parent after the other.
-- KEYS: the partition's root
-- ARGV: now; how many; the parents
-- Answer: ok, now, ids and times in turns, fields in parts
-- Indivisible: all of it.

local left, found, ids = tonumber(ARGV[2]), {}, {}
for index = 3, #ARGV do
  if left <= 0 then
    break
  end
  local lines = redis.call('ZRANGE', root .. ':children:' .. ARGV[index], 0, left - 1, 'WITHSCORES')
  for place = 1, #lines, 2 do
    ids[#ids + 1], found[#found + 1], found[#found + 2] = lines[place], lines[place], lines[place + 1]
  end
  left = left - #lines / 2
end
return {'ok', now_ms, found, read_many(root .. ':node', ids)}
