#!lua flags=no-writes
-- Names rows of a kind, and says how many bytes each has.
-- needs:
-- KEYS: the partition's root
-- ARGV: the kind; where the last call ended, or 0; how many rows to scan
-- Answer: ok, where this one ended, or 0 at the end; ids and sizes in turns. A row may come twice.
-- Indivisible: all of it.

local key, found = KEYS[1] .. ':' .. ARGV[1], {}
local next, rows = unpack(redis.call('HSCAN', key, ARGV[2], 'COUNT', ARGV[3]))
for place = 1, #rows, 2 do
  local id = rows[place]
  found[place] = id
  found[place + 1] = #rows[place + 1]
    + redis.call('HSTRLEN', key .. ':items', id)
    + redis.call('HSTRLEN', key .. ':body', id)
end
return {'ok', next, found}
