-- Fixed window, sliding window and quota: counts that belong to a window. Its key expires when it counts no more,
-- which is known when the window begins.

-- Fixed window, `f`: at most the limit in each window, aligned to UTC. Time that goes back stays in the later window.
function read.f(key, limit)
  local stored = redis.call('HMGET', key, 'count', 'window_start', 'limit')
  local start, begun = now - now % limit[1], tonumber(stored[2])
  local same = stored[3] == limit.text
  local known = begun and (same or goes_on(stored[3], limit.text))
  local stale = stored[3] and not known
  if not known or start > begun then return { 0, start, 0, anew = true, stale = stale } end
  return { tonumber(stored[1]), begun, 0, anew = not same }
end

function take.f(state, limit, cost)
  if state[1] > limit.capacity - cost then return false end
  state[1] = state[1] + cost
  return true
end

function write.f(key, state, limit)
  if not state.anew then
    redis.call('HSET', key, 'count', state[1])
    return
  end
  if state.stale then redis.call('UNLINK', key) end
  redis.call('HSET', key, 'count', state[1], 'window_start', state[2], 'limit', limit.text)
  expire(key, state[2] + limit[1] - now)
end

function back.f(key, limit, cost, _, start)
  local state = read.f(key, limit)
  if state.anew or state[2] ~= start then return end
  redis.call('HSET', key, 'count', math.max(state[1] - cost, 0))
end

-- Sliding window, `s`: the window before counts by the share of it still in view.
function read.s(key, limit)
  local stored = redis.call('HMGET', key, 'count', 'previous', 'window_start', 'limit')
  local start, begun = now - now % limit[1], tonumber(stored[3])
  local same = stored[4] == limit.text
  local known = begun and (same or goes_on(stored[4], limit.text))
  local stale = stored[4] and not known
  if not known then return { 0, 0, start, anew = true, stale = stale } end
  local count, previous = tonumber(stored[1]), tonumber(stored[2])
  if start <= begun then return { count, previous, begun, anew = not same } end
  if start == begun + limit[1] then return { 0, count, start, anew = true } end
  return { 0, 0, start, anew = true }
end

function take.s(state, limit, cost)
  local window, elapsed = limit[1], now - state[3]
  -- Before a window that time went back from, all of the previous one is in view. Rounded up: whole tokens compare alike.
  local faded = state[2]
  if elapsed > 0 then
    local whole, rest = mul_div(window - elapsed, state[2], window)
    faded = rest > 0 and whole + 1 or whole
  end
  if state[1] + faded > limit.capacity - cost then return false end
  state[1] = state[1] + cost
  return true
end

function write.s(key, state, limit)
  if not state.anew then
    redis.call('HSET', key, 'count', state[1])
    return
  end
  if state.stale then redis.call('UNLINK', key) end
  redis.call('HSET', key, 'count', state[1], 'previous', state[2], 'window_start', state[3], 'limit', limit.text)
  expire(key, state[3] + 2 * limit[1] - now)
end

function back.s(key, limit, cost, _, _, start)
  local state = read.s(key, limit)
  if state.stale then return end
  if start == state[3] then
    state[1] = math.max(state[1] - cost, 0)
  elseif start == state[3] - limit[1] then
    state[2] = math.max(state[2] - cost, 0)
  else
    return
  end
  if state.anew then
    write.s(key, state, limit)
  else
    redis.call('HSET', key, 'count', state[1], 'previous', state[2])
  end
end

-- Quota, `q`: a balance for each calendar period. Lua knows no calendar, so the caller sends when this period begins and
-- ends and when the next one ends. If the server's time is outside these, the caller is asked to look again.
function read.q(key, limit)
  local stored = redis.call('HMGET', key, 'count', 'window_start', 'window_end', 'limit')
  local ends = tonumber(stored[3])
  local same = stored[4] == limit.text
  local known = ends and (same or goes_on(stored[4], limit.text))
  local stale = stored[4] and not known
  if known and now < ends then
    return { tonumber(stored[1]), ends, 0, begins = tonumber(stored[2]), anew = not same }
  end
  if now >= limit[1] and now < limit[2] then
    return { 0, limit[2], 0, begins = limit[1], anew = true, stale = stale }
  elseif now >= limit[2] and now < limit[3] then
    return { 0, limit[3], 0, begins = limit[2], anew = true, stale = stale }
  end
  return { 0, 0, 0, unknown = true }
end

take.q = take.f

function write.q(key, state, limit)
  if not state.anew then
    redis.call('HSET', key, 'count', state[1])
    return
  end
  if state.stale then redis.call('UNLINK', key) end
  redis.call('HSET', key, 'count', state[1], 'window_start', state.begins, 'window_end', state[2], 'limit', limit.text)
  expire(key, state[2] - now)
end

function back.q(key, limit, cost, _, ends)
  local stored = redis.call('HMGET', key, 'count', 'window_end', 'limit')
  if stored[3] ~= limit.text or tonumber(stored[2]) ~= ends or now >= ends then return end
  redis.call('HSET', key, 'count', math.max(tonumber(stored[1]) - cost, 0))
end
