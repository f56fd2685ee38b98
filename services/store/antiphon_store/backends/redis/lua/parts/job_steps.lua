-- The steps of a job that its claimers and others take, under the names of backends/job_states.py, and where jobs are
-- listed. All but `enqueued` take a job as time left it.
--
--   `:queue:QUEUE`  a tenant's jobs by when they can be claimed: a held one when its lease ends, unless it ends as well
--   `:held:QUEUE`   holder -> the job of the queue that it claimed last
--   `:ends`         when a job need not be remembered (parts/ends.lua)
-- needs: jobs ends

local function queue_key(queue)
  return TENANT .. ':queue:' .. queue
end

local function held_key(queue)
  return TENANT .. ':held:' .. queue
end

local function enqueued(id, queue, max_attempts, retention_ms, run_after_ms)
  local job = {key = job_key(id), id = id, queue = queue, holder = NOBODY, cancel_requested = '0'}
  job.settled_outcome, job.settled_reason, job.ended_as, job.ended_reason = '', '', '', ''
  job.max_attempts, job.retention_ms = tonumber(max_attempts), tonumber(retention_ms)
  job.available_at_ms = now_ms + tonumber(run_after_ms)
  job.attempts, job.lease_expires_at_ms, job.settled_attempt, job.ended_at_ms = 0, 0, 0, 0
  return job
end

local function extended(job, lease_ttl_ms)
  job.lease_expires_at_ms = math.max(job.lease_expires_at_ms, now_ms + tonumber(lease_ttl_ms))
end

-- The next attempt of a claimable job, or the running one of the holder that has it.
local function claimed(job, holder, lease_ttl_ms)
  if not has_holder(job) then
    job.attempts, job.holder = job.attempts + 1, holder
  end
  extended(job, lease_ttl_ms)
end

-- The end of an attempt, or the refusal; nothing changes when the attempt was settled so before.
local function settled(job, token, outcome, reason)
  if job.settled_attempt == tonumber(token) and job.settled_outcome == outcome and job.settled_reason == reason then
    return nil
  end
  if not is_running(job, token) then
    return {'stale_fence', job.id, token}
  end
  job.settled_attempt, job.settled_outcome, job.settled_reason = tonumber(token), outcome, reason
  if outcome == 'retry' then
    given_back(job, now_ms)
  else
    ended(job, outcome, reason, now_ms) -- the other outcomes are named like the states that they lead to
  end
end

local function cancelled(job)
  if has_ended(job) then
    return
  end
  job.cancel_requested = '1'
  if not has_holder(job) then
    ended(job, 'cancelled', '', now_ms)
  end
end

local function heeds_cancellation(job)
  return not has_ended(job) or job.ended_as == 'cancelled'
end

-- A copy of the job, as it will be when its holder does nothing any more.
local function abandoned(job)
  local copy = {}
  for name, value in pairs(job) do
    copy[name] = value
  end
  if has_holder(copy) then
    given_back(copy, copy.lease_expires_at_ms)
  end
  return copy
end

-- When the job can be claimed, if nothing but time happens to it; nil for never.
local function claimable_at_ms(job)
  local future = abandoned(job)
  return not has_ended(future) and future.available_at_ms or nil
end

-- When the job needs to be remembered no longer, if nothing but time happens to it; nil for never.
local function forgettable_at_ms(job)
  local future = abandoned(job)
  return has_ended(future) and future.ended_at_ms + future.retention_ms or nil
end

-- Takes the job out of its holder's hands in the list. The holder may have another one there by now.
local function unlist_holder(queue, holder, id)
  if redis.call('HGET', held_key(queue), holder) == id then
    redis.call('HDEL', held_key(queue), holder)
  end
end

-- Lists who holds the job. The list goes some time after all its leases, with those holders that never came back.
local function list_holder(job)
  local key = held_key(job.queue)
  local wanted_ms = job.lease_expires_at_ms - now_ms + RECLAIM_GRACE_MS
  redis.call('HSET', key, job.holder, job.id)
  if redis.call('PTTL', key) < wanted_ms then
    redis.call('PEXPIRE', key, integer(wanted_ms))
  end
end

-- Files the job by when it can be claimed, or else by when it may be forgotten; what time will end never goes back to a
-- queue.
local function list_job(job)
  local claimable_ms, forgettable_ms = claimable_at_ms(job), forgettable_at_ms(job)
  if claimable_ms then
    redis.call('ZADD', queue_key(job.queue), integer(claimable_ms), job.id)
    return
  end
  redis.call('ZREM', queue_key(job.queue), job.id)
  file_end('j', job.id, integer(forgettable_ms))
  redis.call('PEXPIRE', job.key, integer(forgettable_ms - now_ms + RECLAIM_GRACE_MS))
end

-- Writes a job, also when nothing changed: for the replicas, as in parts/writing.lua.
local function save_job(job)
  local former = redis.call('HGET', job.key, 'holder')
  local words = {}
  for _, name in ipairs(JOB_WORDS) do
    words[#words + 1], words[#words + 2] = name, job[name]
  end
  for _, name in ipairs(JOB_NUMBERS) do
    words[#words + 1], words[#words + 2] = name, integer(job[name])
  end
  redis.call('HSET', job.key, unpack(words))
  if former and former ~= job.holder then
    unlist_holder(job.queue, former, job.id)
  end
  if has_holder(job) then
    list_holder(job)
  end
  list_job(job)
end

-- Forgets a job and where it is listed: the size of its payload.
local function drop_job(id)
  local key = job_key(id)
  local size = redis.call('HSTRLEN', key, 'payload')
  local queue, holder = unpack(redis.call('HMGET', key, 'queue', 'holder'))
  if queue then
    unlist_holder(queue, holder, id)
    redis.call('ZREM', queue_key(queue), id)
  end
  redis.call('DEL', key)
  unfile_end('j', id)
  return size
end
