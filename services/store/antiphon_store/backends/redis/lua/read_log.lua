#!lua flags=no-writes
-- Reads a part of a response's log.
-- needs: clock nodes
-- KEYS: the log's end, its batches
-- ARGV: now, tree before, tree after, response id, position, max bytes
-- Answer: ok, next position, closed, batches as entries of a stream; or a refusal
-- Indivisible: the part as of one moment.

local BATCHES_PER_CALL = 32
local log = redis.call('HMGET', KEYS[1], 'next', 'closed', 'expires')
if not log[1] or tonumber(log[3]) <= now_ms then
  return {'log_not_found', ARGV[4]}
end
local position, size, batches = tonumber(ARGV[5]), 0, {}
local holding = redis.call('XREVRANGE', KEYS[2], integer(position + 1) .. '-0', '-', 'COUNT', 1)[1]
local from = position < tonumber(log[1]) and holding and holding[1]
while from do
  local entries = redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', BATCHES_PER_CALL)
  from = nil
  for _, entry in ipairs(entries) do
    batches[#batches + 1] = entry
    size = size + #entry[2][10] -- frames come last
    if size >= tonumber(ARGV[6]) then
      return {'ok', tonumber(log[1]), tonumber(log[2]), batches}
    end
    from = '(' .. entry[1]
  end
end
return {'ok', tonumber(log[1]), tonumber(log[2]), batches}
