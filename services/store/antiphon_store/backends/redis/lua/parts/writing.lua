-- What a write may do, given what is stored: backends/admission.py, in the one place where nothing comes in between.
-- Everything is refused before anything is written, because a script cannot be rolled back.
-- needs: lineage catalogue reclaiming fences event_logs

-- The write from the arguments that calls.py made of it, starting at ARGV[4]; and where the arguments go on.
local function parse_write()
  local names = {
    'id', 'parent', 'session', 'status', 'size', 'input_bytes', 'items_crc', 'body_crc', 'items', 'body', 'ttl_ms',
    'item_ids', 'session_most', 'version', 'statuses', 'unless_statuses', 'fence_id', 'fence_token',
  }
  local write = {}
  for index, name in ipairs(names) do
    write[name] = ARGV[index + 3]
  end
  local rest = #names + 4
  write.log_end = parse_append(rest)
  return write, rest + APPEND_ARGUMENTS
end

local function stamp_of(node)
  return {'ok', tonumber(node.version), tonumber(node.depth), tonumber(node.created), tonumber(node.updated),
    node.expires ~= NONE and tonumber(node.expires) or false}
end

local function contains(statuses, status)
  return string.find(statuses, ',' .. status .. ',', 1, true) ~= nil
end

-- The refusal of a write whose precondition does not hold for a readable node.
local function refused_precondition(node, condition)
  if condition.version ~= NONE and condition.version ~= node.version then
    return {'version_mismatch', node.id, condition.version, node.version}
  end
  if condition.statuses ~= NONE and not contains(condition.statuses, node.status) then
    return {'status_mismatch', node.id, node.status}
  end
  if condition.unless_statuses ~= NONE and contains(condition.unless_statuses, node.status) then
    return {'status_mismatch', node.id, node.status}
  end
end

local function refused_absence(write)
  if write.version ~= NONE and write.version ~= '0' then
    return {'version_mismatch', write.id, write.version, '0'}
  end
  if write.statuses ~= NONE or write.unless_statuses ~= NONE then
    return {'status_mismatch', write.id, 'absent'}
  end
end

local function refused_replacement(node, write)
  local names_a_state = write.version ~= NONE and write.version ~= '0'
  if not names_a_state and write.statuses == NONE and write.unless_statuses == NONE then
    return {'already_exists', write.id}
  end
  local refusal = refused_precondition(node, write)
  if not refusal and write.parent ~= node.parent then
    return {'parent_changes', write.id}
  end
  return refusal
end

-- Whether the store holds this very content already, at the version that the write would have made.
local function is_replay(tree, node, write)
  if write.version ~= NONE and tonumber(write.version) ~= tonumber(node.version) - 1 then
    return false
  end
  for _, field in ipairs({'status', 'parent', 'session', 'size', 'input_bytes', 'items_crc', 'body_crc'}) do
    if write[field] ~= node[field] then
      return false
    end
  end
  local place = place_of(node)
  return redis.call('HGET', tree .. ':items', place) == write.items
    and redis.call('HGET', tree .. ':body', place) == write.body
end

-- The heads of the sessions that the writer holds: they may be continued although they were deleted.
local function heads_of(fences)
  local heads = {}
  for _, fence in ipairs(fences) do
    heads[read_session(fence.session_key).head] = true
  end
  return heads
end

local function find_parent(tree, write, heads)
  if write.parent == NONE then
    return nil
  end
  local parent = find(tree, write.parent)
  if not parent or is_expired(parent) or (parent.deleted == '1' and not heads[write.parent]) then
    return nil, {'response_not_found', write.parent}
  end
  return parent
end

-- Writes what a writer decides about a node, under a new version.
local function save(tree, node, write, new_branch)
  node.updated = integer(now_ms)
  node.expires = write.ttl_ms ~= NONE and integer(now_ms + tonumber(write.ttl_ms)) or NONE
  for _, field in ipairs({'id', 'status', 'parent', 'session', 'size', 'input_bytes', 'items_crc', 'body_crc'}) do
    node[field] = write[field]
  end
  local place = place_of(node)
  save_meta(tree, node)
  redis.call('HSET', tree .. ':ids', node.id, place)
  redis.call('HSET', tree .. ':items', place, write.items)
  redis.call('HSET', tree .. ':body', place, write.body)
  file(tree, node, write.item_ids)
  limit_life(tree, node, new_branch)
  return stamp_of(node)
end

local function insert(tree, former, write, heads)
  local parent, refusal = find_parent(tree, write, heads)
  if refusal then
    return nil, refusal
  end
  if former then
    local is_free, much = clear(tree, former)
    if not is_free then
      return nil, much or {'already_exists', write.id}
    end
  end
  local node = {deleted = write.deleted or '0', version = '1', created = integer(now_ms)}
  take_place(tree, node, parent)
  return save(tree, node, write, not parent or parent.branch ~= node.branch)
end

-- The refusal of a write that is no repetition; `log` is that of the response when the write brings its end.
local function refused_write(tree, existing, write, fences, log)
  return refused_fence(fences)
    or existing and refused_replacement(existing, write)
    or not existing and refused_absence(write)
    or log and refused_append(log, write.log_end)
    or not existing and refused_crowd(tree, write.session, write.session_most)
end

-- Inserts or replaces a response and appends to its log: the stamp, or nil and the refusal. All `fences` must hold.
local function put(write, fences)
  local tree = tree_of(write.id)
  local node = find(tree, write.id)
  local existing = node and is_readable(node) and node or nil
  if existing and is_replay(tree, existing, write) then
    -- Written again, so that an answer at durability quorum waits for the replicas also when the first one got lost.
    save_meta(tree, existing)
    return stamp_of(existing)
  end
  local log = write.log_end and find_log(write.id)
  local refusal = refused_write(tree, existing, write, fences, log)
  if refusal then
    return nil, refusal
  end
  local stamp
  if existing then
    existing.version = integer(tonumber(existing.version) + 1)
    unfile(tree, existing)
    stamp = save(tree, existing, write, false)
  else
    stamp, refusal = insert(tree, node, write, heads_of(fences))
  end
  if stamp and log then
    append_to(log, write.log_end)
  end
  return stamp, refusal
end
