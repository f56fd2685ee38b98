#!lua
-- Draws on a tenant's buckets, and gives back and holds places of what it runs at once; antiphon_core/spending.py says
-- what becomes of them. A bucket is words: level, capacity, units a minute, when that was.
-- Passing: it is worth a minute, and to lose it costs nobody anything.
-- needs: clock
-- KEYS: the tenant's buckets, its places
-- ARGV: now, tree before, tree after, memory, most places, ttl, count of draws, count of places to hold, then for each
--   draw: name, amount, at least, capacity, units a minute; then the places to hold, and those to give back
-- Answer: ok, what was refused, then for each draw its bucket as words, empty when nobody described it
-- Indivisible: that there is enough, and everything that is done then.

local MINUTE_MS, TINY, GRACE_MS = 60000, 1e-6, 3600 * 1000
local NOTHING, PLACES = '.', '' -- what is refused; else the name of a bucket
local memory_ms, most, ttl_ms = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local first_hold = 9 + 5 * ARGV[7]
local first_release = first_hold + ARGV[8]

local function words_of(bucket)
  return string.format('%.17g %.17g %.17g %.0f', bucket.level, bucket.capacity, bucket.per_minute, bucket.at_ms)
end

-- A bucket as of now; nil when it was never described, or is forgotten.
local function stored(name)
  local words = redis.call('HGET', KEYS[1], name)
  if not words then
    return nil
  end
  local level, capacity, per_minute, at_ms = string.match(words, '(%S+) (%S+) (%S+) (%S+)')
  local bucket = {capacity = tonumber(capacity), per_minute = tonumber(per_minute), at_ms = tonumber(at_ms)}
  local elapsed_ms = math.max(0, now_ms - bucket.at_ms)
  bucket.level = math.min(bucket.capacity, tonumber(level) + elapsed_ms * bucket.per_minute / MINUTE_MS)
  if now_ms - bucket.at_ms >= memory_ms and bucket.level >= bucket.capacity then
    return nil
  end
  bucket.at_ms = math.max(now_ms, bucket.at_ms)
  return bucket
end

local function described(draw)
  local bucket = stored(draw.name)
  if draw.capacity == 0 then
    return bucket
  end
  return {
    level = math.min(bucket and bucket.level or draw.capacity, draw.capacity),
    capacity = draw.capacity,
    per_minute = draw.per_minute,
    at_ms = bucket and bucket.at_ms or now_ms,
  }
end

local function read_draws()
  local draws = {}
  for at = 9, first_hold - 1, 5 do
    local draw = {
      name = ARGV[at],
      amount = tonumber(ARGV[at + 1]),
      at_least = tonumber(ARGV[at + 2]),
      capacity = tonumber(ARGV[at + 3]),
      per_minute = tonumber(ARGV[at + 4]),
    }
    draw.bucket = described(draw)
    draws[#draws + 1] = draw
  end
  return draws
end

-- The places of the arguments from one to another that are held now.
local function held_of(first, last)
  local held = {}
  for at = first, last do
    local till = redis.call('ZSCORE', KEYS[2], ARGV[at])
    if till and tonumber(till) > now_ms then
      held[#held + 1] = ARGV[at]
    end
  end
  return held
end

local function refused(draws, are_held, are_released)
  for _, draw in ipairs(draws) do
    if draw.bucket and draw.at_least > 0 and draw.bucket.level < draw.at_least - TINY then
      return draw.name
    end
  end
  if most > 0 and first_release > first_hold then
    local all = redis.call('ZCOUNT', KEYS[2], '(' .. integer(now_ms), '+inf')
    if all - are_released - are_held + first_release - first_hold > most then
      return PLACES
    end
  end
  return NOTHING
end

local function answer(outcome, draws)
  local words = {'ok', outcome}
  for _, draw in ipairs(draws) do
    words[#words + 1] = draw.bucket and words_of(draw.bucket) or ''
  end
  return words
end

local function write_buckets(draws)
  local full_in_ms = 0
  for _, draw in ipairs(draws) do
    local bucket = draw.bucket
    if bucket then
      redis.call('HSET', KEYS[1], draw.name, words_of(bucket))
      full_in_ms = math.max(full_in_ms, (bucket.capacity - bucket.level) * MINUTE_MS / bucket.per_minute)
    end
  end
  local left_ms = redis.call('PTTL', KEYS[1])
  if left_ms ~= -2 then -- another bucket may have the larger debt
    local wanted_ms = math.min(full_in_ms + memory_ms + GRACE_MS, 2 ^ 52)
    redis.call('PEXPIRE', KEYS[1], integer(math.max(left_ms, wanted_ms)))
  end
end

local function write_places()
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', integer(now_ms))
  for at = first_release, #ARGV do
    redis.call('ZREM', KEYS[2], ARGV[at])
  end
  for at = first_hold, first_release - 1 do
    redis.call('ZADD', KEYS[2], 'GT', integer(now_ms + ttl_ms), ARGV[at])
  end
  local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
  if last[2] then
    redis.call('PEXPIRE', KEYS[2], integer(tonumber(last[2]) - now_ms + GRACE_MS))
  end
end

local draws = read_draws()
local released = held_of(first_release, #ARGV)
local held = held_of(first_hold, first_release - 1)
local is_repeated = #held > 0 and #held == first_release - first_hold
if not is_repeated then
  local outcome = refused(draws, #held, #released)
  if outcome ~= NOTHING then
    return answer(outcome, draws)
  end
  for _, draw in ipairs(draws) do
    if draw.bucket then
      draw.bucket.level = draw.bucket.level - draw.amount
    end
  end
end
write_buckets(draws)
write_places()
return answer(NOTHING, draws)
