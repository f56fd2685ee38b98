#!lua flags=no-writes
-- Reads the entries of an index after one of them.
-- KEYS: the partition's root; the index
-- ARGV: now; 1 for descending order; how many; time and id of the entry before, or both empty; 1 with nodes
-- Answer: ok, now, ids and times in turns; fields, items, bodies of the nodes, in parts
-- Indivisible: all of it.

local is_reverse, limit, after_at, after_id = ARGV[2] == '1', tonumber(ARGV[3]), ARGV[4], ARGV[5]
local found = {}

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

local function read(first, last, is_wanted)
  local command = is_reverse and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE'
  local lines = redis.call(command, KEYS[2], first, last, 'WITHSCORES', 'LIMIT', 0, is_wanted and -1 or limit)
  for place = 1, #lines, 2 do
    if #found < 2 * limit and (not is_wanted or is_wanted(lines[place])) then
      found[#found + 1], found[#found + 2] = lines[place], lines[place + 1]
    end
  end
end

local first, last = '-inf', '+inf'
if is_reverse then
  first, last = last, first
end
if after_at ~= '' then
  read(after_at, after_at, function(id)
    return id ~= after_id and is_greater(id, after_id) ~= is_reverse
  end)
  first = '(' .. after_at
end
read(first, last)
if ARGV[6] ~= '1' then
  return {'ok', now_ms, found, {}, {}, {}}
end
local nodes = {}
for place = 1, #found, 2 do
  nodes[#nodes + 1] = string.match(found[place], '[^/]*$')
end
local key = root .. ':node'
return {
  'ok', now_ms, found, read_many(key, nodes), read_many(key .. ':items', nodes), read_many(key .. ':body', nodes),
}
