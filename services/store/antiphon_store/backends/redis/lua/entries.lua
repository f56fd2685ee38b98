#!lua flags=allow-oom
-- Writes and removes entries of one index of a tenant: on a Cluster it has a slot of its own.
-- KEYS: the index
-- ARGV: now; 1 to keep entries whose time is earlier than the given one; ids and times in turns: an empty time removes
--   the entry, and `=TIME` removes it if it has this time
-- Answer: ok, ids and given times of those that were kept
-- Indivisible: all of it.

local left = {}
for place = 3, #ARGV, 2 do
  local id, time = ARGV[place], ARGV[place + 1]
  local present = (ARGV[2] == '1' or string.byte(time) == 61) and redis.call('ZSCORE', KEYS[1], id)
  if time == '' or (present and '=' .. integer(tonumber(present)) == time) then
    redis.call('ZREM', KEYS[1], id)
  elseif string.byte(time) == 61 then
    present = nil -- another writer has filed it again
  elseif present and tonumber(present) < time_of(time) then
    left[#left + 1] = id
    left[#left + 1] = time
  else
    file(KEYS[1], id, time)
  end
end
return {'ok', left}
