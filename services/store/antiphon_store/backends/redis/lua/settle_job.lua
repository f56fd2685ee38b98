#!lua flags=allow-oom
-- Ends an attempt.
-- needs: clock nodes ends jobs job_steps
-- KEYS: the tenant's root, the job's key
-- ARGV: now, tree before, tree after, id, token, outcome, reason
-- Answer: ok; or a refusal
-- Indivisible: that the attempt runs, or was settled so before; its end, and what becomes of the job.

local job = find_job(KEYS[2], ARGV[4])
if not job then
  return {'job_not_found', ARGV[4]}
end
local refusal = settled(job, ARGV[5], ARGV[6], ARGV[7])
if refusal then
  return refusal
end
save_job(job)
return {'ok'}
