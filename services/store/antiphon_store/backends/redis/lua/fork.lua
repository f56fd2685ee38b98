#!lua
-- Begins a session from the head of another, or from a response.
-- needs: clock nodes lineage sessions catalogue heads
-- KEYS: the new session's key; the key of the source when that is a session
-- ARGV: now, tree before, tree after, source session, source response, the tree tag in the new session's id (dots:
-- none)
-- Answer: ok, 1, head id; or ok, 0 and the facts that refuse it: the source's head, the status of the source response
-- ('': not readable), the session that it was made in, the head of the new session ('': none), whether a lease lives
-- there
-- Indivisible: what the source is, that the new session is free, its head, and the memory of this fork.

local source_session, source_response, tag = ARGV[4], ARGV[5], ARGV[6]
local session = read_session(KEYS[1])

local function remember(head_id)
  redis.call('HSET', session.key, 'fork_session', source_session, 'fork_response', source_response,
    'fork_head', head_id)
end

local function head_id_of(key)
  local head = key and head_of(read_session(key))
  return head and head.id or ''
end

local former = redis.call('HMGET', session.key, 'fork_session', 'fork_response', 'fork_head')
if former[1] == source_session and former[2] == source_response then
  remember(former[3]) -- for the replicas, as in parts/writing.lua
  return {'ok', 1, former[3]}
end

local source_head, target_head = head_id_of(KEYS[2]), head_id_of(KEYS[1])
local node = source_response ~= NONE and readable(source_response) or nil
local made_in = node and node.session ~= NONE and node.session or ''

-- backends/forking.py, which also says what is wrong.
local function head_to_be()
  if source_response == NONE then
    return source_head
  elseif not node or is_unfinished(node) then
    return ''
  end
  local is_of_source = source_session == NONE or source_session == made_in or source_head == source_response
  return is_of_source and source_response or ''
end

local head_id = head_to_be()
local is_kin = head_id ~= '' and (tag == NONE or tag == string.sub(head_id, 6, 21))
local is_there = is_kin and target_head == head_id
if not is_there and not (is_kin and target_head == '' and not is_held(session)) then
  return {'ok', 0, source_head, node and node.status or '', made_in, target_head, is_held(session) and 1 or 0}
end
if not is_there then
  move_head(session, head_id)
end
remember(head_id)
return {'ok', 1, head_id}
