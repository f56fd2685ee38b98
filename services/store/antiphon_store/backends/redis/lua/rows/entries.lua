#!lua
-- Writes and removes entries of one index of a tenant: on a Cluster it has a slot of its own.
-- needs: entries
-- KEYS: the index
-- ARGV: now; ids and times in turns; an empty time removes the entry
-- Answer: ok
-- Indivisible: all of it.

for place = 2, #ARGV, 2 do
  if ARGV[place + 1] == '' then
    redis.call('ZREM', KEYS[1], ARGV[place])
  else
    file(KEYS[1], ARGV[place], ARGV[place + 1])
  end
end
return {'ok'}
