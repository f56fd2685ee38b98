#!lua flags=no-writes
-- Reads a job as it is now.
-- needs: clock nodes jobs
-- KEYS: the job's key
-- ARGV: now, tree before, tree after, id
-- Answer: ok, queue, state, attempts, max attempts, whether its end is asked for, reason; or a refusal
-- Indivisible: the job as of one moment.

local job = find_job(KEYS[1], ARGV[4])
if not job then
  return {'job_not_found', ARGV[4]}
end
local state = has_ended(job) and job.ended_as or has_holder(job) and 'running' or 'queued'
return {'ok', job.queue, state, job.attempts, job.max_attempts, job.cancel_requested, job.ended_reason}
