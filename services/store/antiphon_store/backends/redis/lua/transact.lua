#!lua
-- Applies a program to the rows of a partition, or changes nothing.
-- KEYS: the partition's root; the program has the keys of entries, which are in this slot or on this only server
-- ARGV: now, the program as programs.py writes it: JSON of [guards, chains, changes, reads]; payloads, by number
-- Answer: ok, applied, now, answers of chains, answers of the other reads
--         ok, refused, now, {number of the guard, fields, items, body} for each row, whether an index is crowded
--         ok, depth or bytes, now: a chain is too long
-- Indivisible: all of it.

local program = cjson.decode(ARGV[2])
local rows = {} -- cache of the rows that were read or written: kind/id -> fields, or false

local function read_row(kind, id)
  local name = kind .. '/' .. id
  if rows[name] == nil then
    rows[name] = redis.call('HGET', root .. ':' .. kind, id)
  end
  return rows[name]
end

-- ---- Guards: {test, kind, id, field, values}; `values` are lines ----

local function holds(test, text, name, values)
  if test == 'absent' or test == 'present' then
    return (test == 'absent') == not text
  end
  local value = field(text, name)
  if test == 'in' or test == 'not_in' then
    return (test == 'not_in') == not string.find(values, '\n' .. value .. '\n', 1, true)
  end
  return value == UNKNOWN or (test == 'ahead') == ((tonumber(value) or 0) > now_ms)
end

local function refusal(guards)
  local failing, is_crowded = {}, false
  for number, guard in ipairs(guards) do
    local test, kind, id = guard[1], guard[2], guard[3]
    if test == 'fewer' then
      is_crowded = is_crowded or redis.call('ZCARD', kind) >= id
    else
      local text = read_row(kind, id)
      if not holds(test, text, guard[4], guard[5]) then
        failing[#failing + 1] = {number, text, payload_of(kind, id, 'items'), payload_of(kind, id, 'body')}
      end
    end
  end
  if is_crowded or #failing > 0 then
    return {'ok', 'refused', now_ms, failing, is_crowded and 1 or 0}
  end
end

-- ---- Changes ----

-- The fields with computed ones: {name, 'now' or 'add', amount, ...}. `former` has the numbers to add amounts to.
local function computed(text, values, former)
  for each = 1, #values, 3 do
    local name, amount = values[each], values[each + 2]
    local from = values[each + 1] == 'now' and now_ms or tonumber(field(former, name)) or 0
    text = text .. '\n,"' .. name .. '":' .. integer(from + amount)
  end
  return text
end

-- The new fields, and those of the old ones that are not among them.
local function merged(new, old)
  local parts = {new}
  for name, value in string.gmatch(old or '', '\n,"([^"]+)":([^\n]*)') do
    if name ~= 'v' and not string.find(new, '\n,"' .. name .. '":', 1, true) then
      parts[#parts + 1] = '\n,"' .. name .. '":' .. value
    end
  end
  return table.concat(parts)
end

-- The key of the ordered ids that have the same text up to their last slash; nil for an id without a slash.
local function order_of(kind, id)
  local prefix = string.match(id, '^.*/')
  return prefix and root .. ':' .. kind .. ':of:' .. prefix
end

-- `number`: of the argument with the payload; 0: no payload, -1: the payload stays.
local function write_payload(key, id, number)
  if number > 0 then
    redis.call('HSET', key, id, ARGV[number])
  elseif number == 0 then
    redis.call('HDEL', key, id)
  end
end

local function write_row(kind, id, text, former, items, body)
  local key, version = root .. ':' .. kind, tonumber(field(former, 'v')) or tonumber(field(text, 'v')) or 0
  text = string.gsub(text, '\n,"v":%d+', '') .. '\n,"v":' .. integer(version + 1)
  if kind == 'node' and field(former, 'created') ~= field(text, 'created') then
    if former then
      unlist_node(id, former)
    end
    list_node(id, text)
  end
  rows[kind .. '/' .. id] = text
  redis.call('HSET', key, id, text)
  write_payload(key .. ':items', id, items)
  write_payload(key .. ':body', id, body)
  local order = order_of(kind, id)
  if order then
    redis.call('ZADD', order, 0, id)
  end
end

local function delete(kind, id)
  local key = root .. ':' .. kind
  local former = kind == 'node' and read_row(kind, id)
  if former then
    unlist_node(id, former)
  end
  rows[kind .. '/' .. id] = false
  redis.call('HDEL', key, id)
  redis.call('HDEL', key .. ':items', id)
  redis.call('HDEL', key .. ':body', id)
  local order = order_of(kind, id)
  if order then
    redis.call('ZREM', order, id)
  end
end

local function grow(id, parent, session, text, values, items, body)
  local depth, now = 0, integer(now_ms)
  if parent ~= cjson.null then
    depth = tonumber(field(read_row('node', parent), 'depth')) + 1
    redis.call('ZADD', root .. ':children:' .. parent, now, id)
  end
  if session ~= cjson.null then
    redis.call('ZADD', root .. ':made:' .. session, now, string.format('%08d/', depth) .. id)
  end
  local place = '\n,"depth":' .. depth .. '\n,"created":' .. now .. '\n,"updated":' .. now
  write_row('node', id, computed(text, values) .. place, nil, items, body)
end

local function change(what, kind, id, text, values, items, body, ...)
  if what == 'set' then
    local former = read_row(kind, id)
    write_row(kind, id, merged(computed(text, values, former), former), former, items, body)
  elseif what == 'put' then
    write_row(kind, id, computed(text, values), nil, items, body)
  elseif what == 'grow' then
    grow(kind, id, text, values, items, body, ...)
  elseif what == 'file' then
    file(kind, id, text) -- key, id, time
  elseif what == 'unfile' then
    redis.call('ZREM', kind, id) -- key, id
  elseif what == 'delete' then
    delete(kind, id)
  else
    for _, each in ipairs(redis.call('ZRANGE', order_of(kind, id), 0, -1)) do -- kind, prefix
      delete(kind, each)
    end
  end
end

-- ---- Reads ----

-- All rows of a kind whose ids have no slash. There are few: a tree has one session for each of its forks.
local function read_all(kind)
  local ids, found = redis.call('HKEYS', root .. ':' .. kind), {}
  table.sort(ids)
  for _, id in ipairs(ids) do
    found[#found + 1] = {id, read_row(kind, id), payload_of(kind, id, 'items'), payload_of(kind, id, 'body')}
  end
  return found
end

local function read_range(kind, prefix, start, max_bytes)
  if prefix == '' then
    return read_all(kind)
  end
  local order, used, found = order_of(kind, prefix), 0, {}
  local first = redis.call('ZRANGE', order, '[' .. start, '-', 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
  local place = first and '[' .. first or '-'
  repeat
    local ids = redis.call('ZRANGE', order, place, '+', 'BYLEX', 'LIMIT', 0, PER_CALL)
    for _, id in ipairs(ids) do
      local items = payload_of(kind, id, 'items')
      found[#found + 1] = {id, read_row(kind, id), items, payload_of(kind, id, 'body')}
      used = used + (items and #items or 0)
      if used >= max_bytes then
        return found
      end
      place = '(' .. id
    end
  until #ids < PER_CALL
  return found
end

local function read(what, kind, id, payload, ...)
  if what == 'range' then
    return read_range(kind, id, payload, ...)
  end
  local text = read_row(kind, id)
  return text and {
    text,
    payload ~= '' and payload_of(kind, id, 'items'),
    payload == 'ib' and payload_of(kind, id, 'body'),
  }
end

local refused = refusal(program[1])
if refused then
  return refused
end
local chains, answers = {}, {}
for number, chain in ipairs(program[2]) do
  local found, too_long = read_chain(unpack(chain))
  if too_long then
    return {'ok', too_long, now_ms}
  end
  chains[number] = found
end
for _, each in ipairs(program[3]) do
  change(unpack(each))
end
for number, each in ipairs(program[4]) do
  answers[number] = read(unpack(each))
end
return {'ok', 'applied', now_ms, chains, answers}
