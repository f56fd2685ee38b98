#!lua
-- Takes the job that the holder has, else the one that has been claimable for longest.
-- needs: clock nodes ends jobs job_steps
-- KEYS: the tenant's root
-- ARGV: now, tree before, tree after, holder, lease ttl, queues
-- Answer: ok, '' for none; ok, id, queue, attempts, max attempts, whether its end is asked for, end of the lease, crc,
-- payload
-- Indivisible: which job it is, over all the queues, and the next attempt.

local FIRST_QUEUE = 6
local holder, lease_ttl_ms = ARGV[4], ARGV[5]

local function own_job(queue)
  local id = redis.call('HGET', held_key(queue), holder)
  local job = id and find_job(job_key(id), id)
  return job and job.holder == holder and job.queue == queue and job
end

local function oldest_job(queue)
  local id = redis.call('ZRANGEBYSCORE', queue_key(queue), '-inf', integer(now_ms), 'LIMIT', 0, 1)[1]
  local job = id and find_job(job_key(id), id)
  if id and not job then -- the server evicted it, which it may at durability memory
    redis.call('ZREM', queue_key(queue), id)
  end
  return job
end

local function oldest_of_all(find)
  local oldest
  for index = FIRST_QUEUE, #ARGV do
    local job = find(ARGV[index])
    if job and not (oldest and oldest.available_at_ms <= job.available_at_ms) then
      oldest = job
    end
  end
  return oldest
end

local job = oldest_of_all(own_job) or oldest_of_all(oldest_job)
if not job then
  return {'ok', ''}
end
claimed(job, holder, lease_ttl_ms)
save_job(job)
local crc, payload = unpack(redis.call('HMGET', job.key, 'crc', 'payload'))
return {'ok', job.id, job.queue, job.attempts, job.max_attempts, job.cancel_requested, job.lease_expires_at_ms, crc,
  payload}
