-- How turns begin. The answers: `begun`, lease, head id, metas and packed items, root first; `as_seen`, lease, when the
-- caller has the history; `look` with a context, when items have to be taken out of it first. Only `look` does nothing.
-- needs: contexts

-- The arguments of turns.py, from that place on.
local function parse_turn(first)
  local turn = parse_bounds(first + 2)
  turn.holder, turn.ttl_ms = ARGV[first], ARGV[first + 1]
  return turn
end

local function begin_from_nothing()
  return {'ok', 'begun', {}, '', {}, {}}
end

local function begin_after(id, turn)
  local tree = tree_of(id)
  local node = find(tree, id)
  if not node or not is_readable(node) then
    return {'previous_response_not_found', id}
  elseif is_unfinished(node) then
    return {'previous_response_not_ready', id, node.status}
  end
  local metas, items, refusal = read_history(tree, node, turn.max_depth, turn.max_bytes)
  return refusal or {'ok', 'begun', {}, id, metas, items}
end

local function begin_in_session(session, removed_key, turn)
  if not is_open_to(session, turn.holder) then
    return {'session_locked'}
  end
  local context, refusal = read_context(session, removed_key, turn)
  if refusal then
    return refusal
  elseif #context.removed > 0 and not context.is_seen then
    return to_look_at(context)
  end
  take(session, turn.holder, turn.ttl_ms)
  local _, token, holder, ends = unpack(granted(session))
  if context.is_seen then
    return {'ok', 'as_seen', {token, holder, ends}}
  end
  return {'ok', 'begun', {token, holder, ends}, context.head, context.metas, context.items}
end
