#!lua flags=no-writes
-- Reads the entries of an index after one of them.
-- KEYS: the partition's root; the index
-- ARGV: now; 1 for descending order; how many; time and id of the entry before, or both empty; 1 with nodes;
--   their payloads; 1 if the index lists all nodes
-- Answer: ok, now, ids and times in turns; fields, items, bodies of the nodes, in parts
--         unlisted: the index of all nodes lacks one of them, or has one that was deleted
-- Indivisible: all of it.

local is_reverse, limit, after_at, after_id = ARGV[2] == '1', tonumber(ARGV[3]), ARGV[4], ARGV[5]
local payload = ARGV[7]

-- Compares bytes: Lua's own comparison depends on the locale.
local function is_greater(one, other)
  for place = 1, math.min(#one, #other) do
    local first, second = string.byte(one, place), string.byte(other, place)
    if first ~= second then
      return first > second
    end
  end
  return #one > #other
end

-- The number of entries before the given place, by a binary search among those with its time; and 1 if an entry is
-- there. Reading all of them would cost as much as the list is long: all children of one parent have one depth.
local function count_before()
  local low = redis.call('ZCOUNT', KEYS[2], '-inf', '(' .. after_at)
  local high = redis.call('ZCOUNT', KEYS[2], '-inf', after_at)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local id = redis.call('ZRANGE', KEYS[2], middle, middle)[1]
    if id == after_id then
      return middle, 1
    elseif is_greater(id, after_id) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low, 0
end

local function read_entries()
  if limit <= 0 then
    return {}
  elseif after_at == '' then
    return redis.call(is_reverse and 'ZREVRANGE' or 'ZRANGE', KEYS[2], 0, limit - 1, 'WITHSCORES')
  end
  local before, is_there = count_before()
  if not is_reverse then
    local first = before + is_there
    return redis.call('ZRANGE', KEYS[2], first, first + limit - 1, 'WITHSCORES')
  end
  local first = redis.call('ZCARD', KEYS[2]) - before
  return redis.call('ZREVRANGE', KEYS[2], first, first + limit - 1, 'WITHSCORES')
end

-- Whether a node was deleted and is listed still.
local function lacks_any(parts)
  for _, part in ipairs(parts) do
    for _, text in ipairs(part) do
      if not text then
        return true
      end
    end
  end
end

local key = root .. ':node'
if ARGV[8] == '1' and redis.call('ZCARD', KEYS[2]) ~= redis.call('HLEN', key) then
  return {'unlisted'}
end
local found = read_entries()
if ARGV[6] ~= '1' then
  return {'ok', now_ms, found, {}, {}, {}}
end
local nodes = {}
for place = 1, #found, 2 do
  nodes[#nodes + 1] = string.match(found[place], '[^/]*$')
end
local texts = read_many(key, nodes)
if ARGV[8] == '1' and lacks_any(texts) then
  return {'unlisted'}
end
if payload == '' then
  return {'ok', now_ms, found, texts, {}, {}}
end
return {'ok', now_ms, found, texts, read_many(key .. ':items', nodes), read_many(key .. ':body', nodes)}
