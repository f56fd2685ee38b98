-- Entries of indexes: sorted sets whose scores are times. Equal times are ordered by the bytes of the ids.
-- needs: clock

-- `at`: a time, or with a plus before it, so many milliseconds from now.
local function file(key, id, at)
  if string.byte(at) == 43 then
    at = integer(now_ms + tonumber(string.sub(at, 2)))
  end
  redis.call('ZADD', key, at, id)
end
