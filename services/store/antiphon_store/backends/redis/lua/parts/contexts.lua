-- What a turn in a session continues, and which items were taken out of it: the set `:removed:ID` beside the session.
--
-- Items are bytes here, and their lengths depend on how JSON is written: taking some out is the caller's work. It looks
-- first, decides, and comes back with the state that it saw; what it decided counts if the state is still the same.
-- needs: nodes lineage sessions reading

-- The arguments of contexts.py, from that place on. `seen` is the state that the caller saw, or empty.
local function parse_bounds(first)
  return {
    max_depth = ARGV[first], max_bytes = ARGV[first + 1], max_bytes_whole = ARGV[first + 2], seen = ARGV[first + 3],
  }
end

-- Names this chain, with the version of each node in it, and these removed items.
local function state_of(metas, removed)
  return redis.sha1hex(cmsgpack.pack({metas, removed}))
end

local function is_as_seen(tree, head, removed, bounds)
  if bounds.seen == '' then
    return false
  end
  local _, metas = read_metas(tree, head, bounds.max_depth)
  return metas ~= nil and state_of(metas, removed) == bounds.seen
end

-- The context, or nil and the refusal. When it is as the caller saw it, `is_seen` says so in place of its items.
local function read_context(session, removed_key, bounds)
  local head, tree = head_of(session)
  if not head then
    return {head = '', removed = {}, metas = {}, items = {}}
  end
  local removed = redis.call('SMEMBERS', removed_key)
  table.sort(removed)
  if is_as_seen(tree, head, removed, bounds) then
    return {head = head.id, removed = removed, is_seen = true}
  end
  -- A caller that takes items out bounds what is left.
  local max_bytes = #removed > 0 and bounds.max_bytes_whole or bounds.max_bytes
  local metas, items, refusal = read_history(tree, head, bounds.max_depth, max_bytes)
  if refusal then
    return nil, refusal
  end
  return {head = head.id, removed = removed, metas = metas, items = items}
end

-- What the caller has to look at.
local function to_look_at(context)
  local state = state_of(context.metas, context.removed)
  return {'ok', 'look', state, context.removed, context.head, context.metas, context.items}
end
