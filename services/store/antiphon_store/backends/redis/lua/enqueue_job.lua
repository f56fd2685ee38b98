#!lua
-- Adds a job.
-- needs: clock nodes ends jobs job_steps
-- KEYS: the tenant's root, the job's key
-- ARGV: now, tree before, tree after, id, queue, max attempts, retention, delay, crc, payload
-- Answer: ok; or a refusal
-- Indivisible: whether the id is taken, and by what; the job, and its place in the queue.

local id, queue, crc, payload = ARGV[4], ARGV[5], ARGV[9], ARGV[10]
local job = find_job(KEYS[2], id)
if not job then
  drop_job(id) -- one that need not be remembered
  redis.call('HSET', KEYS[2], 'crc', crc, 'payload', payload)
  save_job(enqueued(id, queue, ARGV[6], ARGV[7], ARGV[8]))
  return {'ok'}
end
if job.queue ~= queue or redis.call('HGET', KEYS[2], 'payload') ~= payload then
  return {'already_exists', id}
end
save_job(job)
return {'ok'}
