#!lua
-- Extends the lease of a job's running attempt.
-- needs: clock nodes ends jobs job_steps
-- KEYS: the tenant's root, the job's key
-- ARGV: now, tree before, tree after, id, token, lease ttl
-- Answer: ok, whether its end is asked for, end of the lease; or a refusal
-- Indivisible: that the attempt runs, and its new end.
-- Frequent: workers renew all their leases at the same moments.

local id, token = ARGV[4], ARGV[5]
local job = find_job(KEYS[2], id)
if not job then
  return {'job_not_found', id}
end
if not is_running(job, token) then
  return {'stale_fence', id, token}
end
extended(job, ARGV[6])
save_job(job)
return {'ok', job.cancel_requested, job.lease_expires_at_ms}
