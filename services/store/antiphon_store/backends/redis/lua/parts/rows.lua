-- Rows as text: a line `,"name":value` for each field, after a line break. Values are JSON without line breaks, and
-- parsed here only where a program computes with one.
--
--     ROOT:KIND        hash  id -> the fields of a row
--     ROOT:KIND:items  hash  id -> its first payload; none is an empty one
--     ROOT:KIND:body   hash  id -> its second payload
--     ROOT:KIND:of:P   zset  the ids that have P up to their last slash, in their order

local root = KEYS[1]
local PER_CALL = 256 -- bounds the arguments of one HMGET
local UNKNOWN = 'null'

local function field(text, name)
  local _, last = string.find(text or '', '\n,"' .. name .. '":', 1, true)
  if not last then
    return UNKNOWN
  end
  return string.sub(text, last + 1, (string.find(text, '\n', last, true) or 0) - 1)
end

-- The text of a JSON string; nil for null.
local function plain(value)
  if value == UNKNOWN then
    return nil
  end
  return string.find(value, '\\', 1, true) and cjson.decode('[' .. value .. ']')[1] or string.sub(value, 2, -2)
end

-- The values of ids in their order, in a part for each call.
local function read_many(key, ids)
  local parts = {}
  for first = 1, #ids, PER_CALL do
    parts[#parts + 1] = redis.call('HMGET', key, unpack(ids, first, math.min(first + PER_CALL - 1, #ids)))
  end
  return parts
end

local function payload_of(kind, id, name)
  return redis.call('HGET', root .. ':' .. kind .. ':' .. name, id)
end
