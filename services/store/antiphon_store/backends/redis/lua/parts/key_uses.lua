-- An idempotency key: a hash, `:key:KEY`, of what backends/idempotency.py stores of one; that module draws what may
-- become of it. The stamp is words, in the order of an answer, and absent until a write has bound the key.
-- needs: nodes

local UNKNOWN = ''

local function read_use(key)
  local values = redis.call('HMGET', key, 'response', 'fingerprint', 'claimed_until', 'expires', 'stamp')
  if not values[1] then
    return nil
  end
  return {
    response = values[1],
    fingerprint = values[2],
    claimed_until = tonumber(values[3]),
    expires = tonumber(values[4]),
    stamp = values[5] or nil,
  }
end

-- Whether the key keeps others out: it is bound, or its claim lives.
local function is_in_force(use)
  return use ~= nil and now_ms < (use.stamp and use.expires or use.claimed_until)
end

local function is_of_another_request(use, fingerprint)
  return is_in_force(use) and use.fingerprint ~= UNKNOWN and use.fingerprint ~= fingerprint
end

local function is_of_another_response(use, response)
  return is_in_force(use) and use.response ~= response
end

local function write_use(key, use)
  redis.call('DEL', key)
  redis.call('HSET', key, 'response', use.response, 'fingerprint', use.fingerprint,
    'claimed_until', integer(use.claimed_until), 'expires', integer(use.expires))
  if use.stamp then
    redis.call('HSET', key, 'stamp', use.stamp)
  end
  redis.call('PEXPIRE', key, integer(use.expires - now_ms + RECLAIM_GRACE_MS))
end

local function claim(key, response, fingerprint, ttl_ms, memory_ms)
  write_use(key, {
    response = response,
    fingerprint = fingerprint,
    claimed_until = now_ms + ttl_ms,
    expires = now_ms + math.max(ttl_ms, memory_ms),
  })
end

local function format_stamp(stamp)
  local words = {}
  for index = 2, 6 do -- `ok` stands before them
    words[#words + 1] = stamp[index] and integer(stamp[index]) or NONE
  end
  return table.concat(words, ' ')
end

local function parse_stamp(text)
  local stamp = {'ok'}
  for word in string.gmatch(text, '%S+') do
    stamp[#stamp + 1] = word ~= NONE and tonumber(word) or false
  end
  return stamp
end

-- Binds the key to a write that was made. The first binding stays; a claim of the same response hands its fingerprint
-- on to a write that brings none (nil).
local function bind(key, use, response, stamp, fingerprint, memory_ms)
  local own = use and use.response == response and now_ms < use.expires and use or nil
  if own and own.stamp then
    return
  end
  write_use(key, {
    response = response,
    fingerprint = fingerprint or own and own.fingerprint or UNKNOWN,
    claimed_until = now_ms,
    expires = now_ms + memory_ms,
    stamp = format_stamp(stamp),
  })
end
