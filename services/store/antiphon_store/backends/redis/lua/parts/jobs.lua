-- A job: a hash, `:job:ID` beside its tree, of what backends/job_states.py stores of one. Here is what a job is as time
-- left it, under the names that the steps have there; parts/job_steps.lua has the steps that others take.
-- needs: nodes

local NOBODY = ''
local ATTEMPTS_EXHAUSTED = 'attempts exhausted'
local JOB_WORDS = {
  'queue', 'holder', 'cancel_requested', 'settled_outcome', 'settled_reason', 'ended_as', 'ended_reason',
}
local JOB_NUMBERS = {
  'max_attempts', 'retention_ms', 'available_at_ms', 'attempts', 'lease_expires_at_ms', 'settled_attempt',
  'ended_at_ms',
}

-- The root of a job's key is that of its response's tree.
local function job_key(id)
  return tree_of(id) .. ':job:' .. id
end

local function stored_job(key, id)
  local words = redis.call('HMGET', key, unpack(JOB_WORDS))
  if not words[1] then
    return nil
  end
  local job = {key = key, id = id}
  for index, name in ipairs(JOB_WORDS) do
    job[name] = words[index]
  end
  for index, number in ipairs(redis.call('HMGET', key, unpack(JOB_NUMBERS))) do
    job[JOB_NUMBERS[index]] = tonumber(number)
  end
  return job
end

local function has_holder(job)
  return job.holder ~= NOBODY
end

local function has_ended(job)
  return job.ended_as ~= ''
end

local function ended(job, state, reason, at_ms)
  job.holder, job.lease_expires_at_ms = NOBODY, 0
  job.ended_as, job.ended_reason, job.ended_at_ms = state, reason, at_ms
end

-- Takes the job from its holder: for the next one, or for its end when there can be none.
local function given_back(job, at_ms)
  if job.cancel_requested == '1' then
    ended(job, 'cancelled', '', at_ms)
  elseif job.attempts >= job.max_attempts then
    ended(job, 'failed', ATTEMPTS_EXHAUSTED, at_ms)
  else
    job.holder, job.lease_expires_at_ms, job.available_at_ms = NOBODY, 0, at_ms
  end
end

-- The job as time left it; nil when it ended too long ago to be remembered.
local function as_of(job, at_ms)
  if has_holder(job) and job.lease_expires_at_ms <= at_ms then
    given_back(job, job.lease_expires_at_ms)
  end
  if has_ended(job) and job.ended_at_ms + job.retention_ms <= at_ms then
    return nil
  end
  return job
end

local function find_job(key, id)
  local job = stored_job(key, id)
  return job and as_of(job, now_ms)
end

-- Whether the token is that of the running attempt.
local function is_running(job, token)
  return has_holder(job) and job.attempts == tonumber(token)
end
