-- A node and its ancestors, within bounds.

-- The ids and fields from the node up to its root, or which bound is exceeded. Each ancestor is one HGET.
local function climb(id, max_depth, max_bytes)
  local key, ids, texts, used, length = root .. ':node', {}, {}, 0, 0
  local text = redis.call('HGET', key, id)
  local expires = text and field(text, 'expires')
  if not text or (expires ~= UNKNOWN and tonumber(expires) <= now_ms) then
    return ids, texts
  end
  local depth = tonumber(field(text, 'depth'))
  if depth + 1 > max_depth then
    return nil, 'depth'
  end
  while id do
    length = length + 1
    if length > depth + 1 then -- a damaged row may name a descendant as its parent: the server would never answer again
      error('a stored response has more ancestors than its depth')
    end
    ids[length], texts[length] = id, text
    if max_bytes then
      used = used + tonumber(string.match(text, '\n,"size":(%d+)'))
      if used > max_bytes then
        return nil, 'bytes'
      end
    end
    id = string.match(text, '\n,"parent":"([^"\\]*)"') or plain(field(text, 'parent'))
    text = id and redis.call('HGET', key, id)
    if id and not text then
      error('a stored response has lost its ancestor ' .. id)
    end
  end
  return ids, texts
end

-- The packed items of nodes; nil if the JSON array of all items is longer than max_bytes.
local function read_items(ids, max_bytes)
  local parts, used = {}, 1
  for first = 1, #ids, PER_CALL do
    local items = redis.call('HMGET', root .. ':node:items', unpack(ids, first, math.min(first + PER_CALL - 1, #ids)))
    for _, each in ipairs(items) do
      used = used + (each and #each + 1 or 0)
    end
    if used > max_bytes then
      return nil
    end
    parts[#parts + 1] = items
  end
  return parts
end

local LINEAGES_PER_CALL = 32 -- at most 2 MiB
local LINEAGE_BYTES_MAX = 81920 -- all that a turn takes along, sealed (LINEAGE_READ_BYTES_MAX of antiphon_core/limits.py)

-- The lineages of nodes, from the node up, in one part. Those behind the first bytes of the chain, root first, are left
-- out but for the node's own: no turn takes them along, and of a long chain they would be most of the bytes.
local function read_lineages(ids)
  local key, found, used, last = root .. ':lineage:items', {}, 0, #ids
  for at = 1, last do
    found[at] = false
  end
  while last > 0 and used <= LINEAGE_BYTES_MAX do
    local first = math.max(last - LINEAGES_PER_CALL + 1, 1)
    for at, each in ipairs(redis.call('HMGET', key, unpack(ids, first, last))) do
      found[first + at - 1] = each
      used = used + (each and #each or 0)
    end
    last = first - 1
  end
  if last > 0 then
    found[1] = redis.call('HGET', key, ids[1])
  end
  return {found}
end

-- {the node's id, fields, items, bodies or lineages}, from the node up: the fields name the parents; or nil and which
-- bound is exceeded. Items, bodies and lineages come in parts.
local function read_chain(start, is_head, payload, max_depth, max_bytes)
  local with_bodies = payload == 'ib'
  if is_head then
    start = plain(field(redis.call('HGET', root .. ':session', start), 'head'))
  end
  if not start then
    return {'', {}, {}, {}}
  end
  local ids, texts = climb(start, max_depth, with_bodies and max_bytes)
  if not ids then
    return nil, texts
  end
  local items = payload == '' and {} or read_items(ids, with_bodies and math.huge or max_bytes)
  if not items then
    return nil, 'bytes'
  end
  local beside = payload == 'il' and read_lineages(ids) or with_bodies and read_many(root .. ':node:body', ids)
  return {ids[1] or '', texts, items, beside or {}}
end
