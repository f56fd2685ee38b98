-- An event log: a hash that says where it ends, `:log:ID` beside its tree, and a stream of its batches, `:events:ID`.
-- backends/log_states.py draws what may become of it. An entry's number is that of its first event plus one, because no
-- entry of a stream may have the number 0.
-- needs: ends

local APPEND_ARGUMENTS = 7

-- The log of a response as it is now; one that is not there begins at 0.
local function find_log(id)
  local root = tree_of(id)
  local log = {id = id, key = root .. ':log:' .. id, batches_key = root .. ':events:' .. id}
  local values = redis.call('HMGET', log.key, 'next', 'closed', 'expires')
  log.is_there = values[1] and tonumber(values[3]) > now_ms
  log.expires = values[3]
  log.next = log.is_there and values[1] or '0'
  log.is_closed = log.is_there and values[2] == '1'
  return log
end

local function entry_number(position)
  return integer(tonumber(position) + 1) .. '-0'
end

-- The append from the arguments that calls.py made of it; nil when they begin with a dot.
local function parse_append(first)
  if ARGV[first] == NONE then
    return nil
  end
  return {
    position = ARGV[first],
    next = integer(tonumber(ARGV[first]) + tonumber(ARGV[first + 1])),
    terminal = ARGV[first + 2],
    entry = {
      'count', ARGV[first + 1], 'terminal', ARGV[first + 2], 'checkpoint', ARGV[first + 3], 'crc', ARGV[first + 4],
      'frames', ARGV[first + 5],
    },
    ttl_ms = tonumber(ARGV[first + 6]),
  }
end

-- Whether the log holds this very batch.
local function has_batch(log, append)
  if tonumber(append.position) >= tonumber(log.next) then
    return false
  end
  local number = entry_number(append.position)
  local found = redis.call('XRANGE', log.batches_key, number, number)[1]
  if not found then
    return false
  end
  for index, value in ipairs(append.entry) do
    if found[2][index] ~= value then
      return false
    end
  end
  return true
end

local function refused_append(log, append)
  if log.is_closed then
    return {'log_closed', log.id}
  end
  if append.position ~= log.next then
    return {'position_mismatch', log.id, append.position, log.next}
  end
end

-- Appends what is not refused.
local function append_to(log, append)
  if not log.is_there then
    redis.call('DEL', log.key, log.batches_key)
  end
  redis.call('XADD', log.batches_key, entry_number(append.position), unpack(append.entry))
  local expires = integer(now_ms + append.ttl_ms)
  redis.call('HSET', log.key, 'next', append.next, 'closed', append.terminal, 'expires', expires)
  redis.call('HINCRBY', log.key, 'size', #append.entry[#append.entry]) -- the frames
  file_end('l', log.id, expires)
  for _, key in ipairs({log.key, log.batches_key}) do
    redis.call('PEXPIRE', key, integer(append.ttl_ms + RECLAIM_GRACE_MS))
  end
end

-- Lets go of a log whose time is over: how many that are, for the server may have been faster, and the bytes of its
-- frames.
local function drop_log(log)
  local size = redis.call('HGET', log.key, 'size')
  redis.call('DEL', log.key, log.batches_key)
  unfile_end('l', log.id)
  return size and 1 or 0, tonumber(size or 0)
end
