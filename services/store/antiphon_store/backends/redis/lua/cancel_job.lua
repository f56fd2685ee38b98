#!lua flags=allow-oom
-- Asks for a job's end; without a holder it ends at once.
-- needs: clock nodes ends jobs job_steps
-- KEYS: the tenant's root, the job's key
-- ARGV: now, tree before, tree after, id
-- Answer: ok, whether that was not too late; or a refusal
-- Indivisible: whether somebody holds it; the flag, or the end.

local job = find_job(KEYS[2], ARGV[4])
if not job then
  return {'job_not_found', ARGV[4]}
end
cancelled(job)
save_job(job)
return {'ok', heeds_cancellation(job) and 1 or 0}
