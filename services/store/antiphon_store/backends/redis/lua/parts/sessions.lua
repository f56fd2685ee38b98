-- A session: a hash of head, last fence, holder and end of the lease; backends/leases.py draws what may become of it.

local function read_session(key)
  local values = redis.call('HMGET', key, 'head', 'last_fence', 'holder', 'lease_expires')
  return {
    key = key,
    head = values[1] or '',
    last_fence = tonumber(values[2] or 0),
    holder = values[3] or '',
    lease_expires = tonumber(values[4] or 0),
  }
end

local function is_held(session)
  return session.holder ~= '' and now_ms < session.lease_expires
end

local function holds(session, token)
  return is_held(session) and session.last_fence == tonumber(token)
end

local function write_lease(session)
  redis.call('HSET', session.key, 'last_fence', integer(session.last_fence), 'holder', session.holder,
    'lease_expires', integer(session.lease_expires))
end

local function extend(session, ttl_ms)
  session.lease_expires = math.max(session.lease_expires, now_ms + tonumber(ttl_ms))
  write_lease(session)
end

local function is_open_to(session, holder)
  return not is_held(session) or session.holder == holder
end

-- Takes or extends the lease; the session is open to the holder.
local function take(session, holder, ttl_ms)
  if not is_held(session) then
    session.last_fence = session.last_fence + 1
    session.holder = holder
    session.lease_expires = 0
  end
  extend(session, ttl_ms)
end

local function release(session)
  session.holder = ''
  session.lease_expires = 0
  write_lease(session)
end

local function granted(session)
  return {'ok', session.last_fence, session.holder, session.lease_expires}
end

-- The node that a turn in the session continues, deleted or not, until its time is over; and its tree.
local function head_of(session)
  if session.head == '' then
    return nil
  end
  local tree = tree_of(session.head)
  local node = find(tree, session.head)
  if node and not is_expired(node) then
    return node, tree
  end
end
