#!lua
-- Begins a turn that happens once for its idempotency key.
-- needs: beginnings key_uses
-- KEYS: the idempotency key's; in a session, its key and the set of its removed items
-- ARGV: now, tree before, tree after, id of the response that it continues (or a dot), the turn (6), key,
-- fingerprint, id of its own response, claim ttl, how long a key is remembered
-- Answer: ok and how it began (parts/beginnings.lua), or `replay`, meta, packed items, body, or `running`, id of the
-- response; or a refusal
-- Indivisible: what begins a turn is; that the key is free or its own, and the claim.

local previous, turn = ARGV[4], parse_turn(5)
local key, fingerprint, response, claim_ttl_ms, memory_ms = unpack(ARGV, 11, 15)

local function read_replay(id)
  local tree = tree_of(id)
  local node = find(tree, id)
  if node and is_readable(node) then
    local place = place_of(node)
    return {'ok', 'replay', format(node), redis.call('HGET', tree .. ':items', place),
      redis.call('HGET', tree .. ':body', place)}
  end
end

local function begin()
  if KEYS[2] then
    return begin_in_session(read_session(KEYS[2]), KEYS[3], turn)
  elseif previous ~= NONE then
    return begin_after(previous, turn)
  end
  return begin_from_nothing()
end

local use = read_use(KEYS[1])
if is_of_another_request(use, fingerprint) then
  return {'idempotency_mismatch', key}
end
if is_in_force(use) then
  local replay = use.stamp and read_replay(use.response)
  if replay then
    return replay
  elseif not use.stamp and use.response ~= response then
    return {'ok', 'running', use.response}
  end
end
local answer = begin()
if answer[1] == 'ok' and answer[2] ~= 'look' then
  claim(KEYS[1], response, fingerprint, tonumber(claim_ttl_ms), tonumber(memory_ms))
end
return answer
