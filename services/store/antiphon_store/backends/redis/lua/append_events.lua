#!lua
-- Appends one batch of events to a response's log.
-- needs: clock nodes sessions
-- KEYS: the log's end, its batches; the session's key when there is a fence
-- ARGV: now, tree before, tree after, response id, position, count, terminal, checkpoint, crc, frames, ttl, token
-- Answer: ok, the next position; or a refusal
-- Indivisible: whether the batch is there already, the fence, the end of the log, the batch, the log's new end.

local id, position, count, terminal = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local ttl_ms, token = ARGV[11], ARGV[12]
local entry = {'count', count, 'terminal', terminal, 'checkpoint', ARGV[8], 'crc', ARGV[9], 'frames', ARGV[10]}
local entry_id = integer(tonumber(position) + 1) .. '-0' -- no entry of a stream may have the number 0

local function is_same(found)
  for index, value in ipairs(entry) do
    if found[index] ~= value then
      return false
    end
  end
  return true
end

local log = redis.call('HMGET', KEYS[1], 'next', 'closed', 'expires')
local is_there = log[1] and tonumber(log[3]) > now_ms
local after = integer(tonumber(position) + tonumber(count))
if is_there then
  local found = redis.call('XRANGE', KEYS[2], entry_id, entry_id)
  if found[1] and is_same(found[1][2]) then
    redis.call('HSET', KEYS[1], 'next', log[1]) -- for the replicas, as in parts/writing.lua
    return {'ok', tonumber(after)}
  end
end
if KEYS[3] and not holds(read_session(KEYS[3]), token) then
  return {'stale_fence', token}
end
if is_there and log[2] == '1' then
  return {'log_closed', id}
end
local next_position = is_there and log[1] or '0'
if position ~= next_position then
  return {'position_mismatch', id, position, next_position}
end
if not is_there then
  redis.call('DEL', KEYS[2])
end
redis.call('XADD', KEYS[2], entry_id, unpack(entry))
redis.call('HSET', KEYS[1], 'next', after, 'closed', terminal, 'expires', integer(now_ms + tonumber(ttl_ms)))
for _, key in ipairs({KEYS[1], KEYS[2]}) do
  redis.call('PEXPIRE', key, integer(tonumber(ttl_ms) + RECLAIM_GRACE_MS))
end
return {'ok', tonumber(after)}
