-- A node and its ancestors, within bounds.
-- needs: rows

-- The ids and fields from the node up to its root, or nil when there are more than `max_depth`. Each ancestor is one HGET.
local function climb(id, max_depth)
  local key, ids, texts, length = root .. ':node', {}, {}, 0
  local text = redis.call('HGET', key, id)
  local expires = text and field(text, 'expires')
  if not text or (expires ~= UNKNOWN and tonumber(expires) <= now_ms) then
    return ids, texts
  end
  if tonumber(field(text, 'depth')) + 1 > max_depth then
    return nil
  end
  while id do
    length = length + 1
    ids[length], texts[length] = id, text
    id = string.match(text, '\n,"parent":"([^"\\]*)"') or plain(field(text, 'parent'))
    text = id and redis.call('HGET', key, id)
    if id and not text then
      error('a stored response has lost its ancestor ' .. id)
    end
  end
  return ids, texts
end

-- Payloads of so many nodes, and how many bytes they and what separates them are.
local function read_payloads(name, ids, first, separator)
  local key, last, used = root .. ':node:' .. name, math.min(first + PER_CALL - 1, #ids), 0
  local found = redis.call('HMGET', key, unpack(ids, first, last))
  for _, each in ipairs(found) do
    used = used + (each and #each + separator or 0)
  end
  return found, used
end

-- {the node's id, fields, items, bodies}, from the node up: the fields name the parents; or nil and which bound is
-- exceeded. Items and bodies come in parts.
local function read_chain(start, is_head, payload, max_depth, max_bytes)
  if is_head then
    start = plain(field(redis.call('HGET', root .. ':session', start), 'head'))
  end
  if not start then
    return {'', {}, {}, {}}
  end
  local ids, texts = climb(start, max_depth)
  if not ids then
    return nil, 'depth'
  end
  local items, bodies, used, more = {}, {}, 1, 0
  for first = 1, payload ~= '' and #ids or 0, PER_CALL do
    items[#items + 1], more = read_payloads('items', ids, first, 1)
    used = used + more
    if payload == 'ib' then
      bodies[#bodies + 1], more = read_payloads('body', ids, first, 0)
      used = used + more
    end
    if used > max_bytes then
      return nil, 'bytes'
    end
  end
  return {ids[1] or '', texts, items, bodies}
end
