-- Entries of indexes: sorted sets whose scores are times. Equal times are ordered by the bytes of the ids.

-- `at`: a time or, with a plus before it, milliseconds from now.
local function time_of(at)
  return string.byte(at) == 43 and now_ms + tonumber(string.sub(at, 2)) or tonumber(at)
end

local function file(key, id, at)
  redis.call('ZADD', key, integer(time_of(at)), id)
end
