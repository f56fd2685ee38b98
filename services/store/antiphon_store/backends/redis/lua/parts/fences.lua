-- A fence is the proof of a living lease: that of a job when there is a job of its id, else that of a session.
-- needs: sessions jobs

-- The fence of an id and its token; the keys of its job and of its session stand at `first` and behind. nil without.
local function fence_at(first, id, token)
  if not KEYS[first] then
    return nil
  end
  return {job_key = KEYS[first], session_key = KEYS[first + 1], id = id, token = token}
end

-- The refusal of the first fence in the list that does not hold; no fences are always good.
local function refused_fence(fences)
  for _, fence in ipairs(fences) do
    local job = find_job(fence.job_key, fence.id)
    local is_good
    if job then
      is_good = is_running(job, fence.token)
    else
      is_good = holds(read_session(fence.session_key), fence.token)
    end
    if not is_good then
      return {'stale_fence', fence.id, fence.token}
    end
  end
end
