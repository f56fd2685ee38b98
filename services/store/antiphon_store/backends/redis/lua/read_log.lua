#!lua flags=no-writes
-- Reads a part of a response's log.
-- needs: clock nodes event_logs
-- KEYS: the tree's root
-- ARGV: now, tree before, tree after, response id, position, max bytes
-- Answer: ok, next position, closed, batches as entries of a stream; or a refusal
-- Indivisible: the part as of one moment.

local BATCHES_PER_CALL = 32
local log = find_log(ARGV[4])
if not log.is_there then
  return {'log_not_found', log.id}
end
local next_position, closed = tonumber(log.next), log.is_closed and 1 or 0
local position, size, batches = tonumber(ARGV[5]), 0, {}
local holding = redis.call('XREVRANGE', log.batches_key, entry_number(position), '-', 'COUNT', 1)[1]
local from = position < next_position and holding and holding[1]
while from do
  local entries = redis.call('XRANGE', log.batches_key, from, '+', 'COUNT', BATCHES_PER_CALL)
  from = nil
  for _, entry in ipairs(entries) do
    batches[#batches + 1] = entry
    size = size + #entry[2][10] -- frames come last
    if size >= tonumber(ARGV[6]) then
      return {'ok', next_position, closed, batches}
    end
    from = '(' .. entry[1]
  end
end
return {'ok', next_position, closed, batches}
