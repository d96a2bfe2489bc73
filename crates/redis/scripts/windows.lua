-- Fixed window, sliding window and quota: counts that belong to a window. Its key expires when it counts no more,
-- which is known when the window begins.

-- Whether a counter written under the figures `old` goes on under `new`: texts are `<algorithm> <figure> <span>`.
local function goes_on(old, new)
  if not old then return false end
  local algorithm, span = string.match(old, '^(%S+) %d+ (.+)$')
  local algorithm_now, span_now = string.match(new, '^(%S+) %d+ (.+)$')
  return algorithm == algorithm_now and span == span_now
end

-- Fixed window, `f`: at most the limit in each window, aligned to UTC. Time that goes back stays in the later window.
-- The limit's first figure is the window.
local function read_fixed(key, limit)
  local stored = call('HMGET', key, 'count', 'window_start', 'limit')
  local start, begun, text = now - now % limit[1], tonumber(stored[2]), limit[TEXT]
  local same = stored[3] == text
  local known = begun and (same or goes_on(stored[3], text))
  if not known or start > begun then
    return { 0, start, 0, true, 0, stored[3] and not known, limit, key, false }
  end
  return { tonumber(stored[1]), begun, 0, not same, 0, false, limit, key, false }
end

-- Of fixed windows and quotas.
local function take_count(state, limit, cost)
  if state[1] > limit[CAPACITY] - cost then return false end
  state[1] = state[1] + cost
  return true
end

local function write_fixed(key, state, limit)
  if not state[ANEW] then
    call('HSET', key, 'count', state[1])
    return
  end
  if state[STALE] then call('UNLINK', key) end
  call('HSET', key, 'count', state[1], 'window_start', state[2], 'limit', limit[TEXT])
  expire(key, state[2] + limit[1] - now)
end

-- Sliding window, `s`: the window before counts by the share of it still in view. The first figure is the window.
local function read_sliding(key, limit)
  local stored = call('HMGET', key, 'count', 'previous', 'window_start', 'limit')
  local start, begun, text = now - now % limit[1], tonumber(stored[3]), limit[TEXT]
  local same = stored[4] == text
  if not begun or not (same or goes_on(stored[4], text)) then
    return { 0, 0, start, true, 0, stored[4] and true or false, limit, key, false }
  end
  local count, previous = tonumber(stored[1]), tonumber(stored[2])
  if start <= begun then return { count, previous, begun, not same, 0, false, limit, key, false } end
  if start > begun + limit[1] then count = 0 end
  return { 0, count, start, true, 0, false, limit, key, false }
end

local function take_sliding(state, limit, cost)
  local window, faded, elapsed = limit[1], state[2], now - state[3]
  -- Before a window that time went back from, all of the previous one is in view. Rounded up: whole tokens compare alike.
  if elapsed > 0 then
    local rest
    faded, rest = mul_div(window - elapsed, state[2], window)
    if rest > 0 then faded = faded + 1 end
  end
  if state[1] + faded > limit[CAPACITY] - cost then return false end
  state[1] = state[1] + cost
  return true
end

local function write_sliding(key, state, limit)
  if not state[ANEW] then
    call('HSET', key, 'count', state[1])
    return
  end
  if state[STALE] then call('UNLINK', key) end
  call('HSET', key, 'count', state[1], 'previous', state[2], 'window_start', state[3], 'limit', limit[TEXT])
  expire(key, state[3] + 2 * limit[1] - now)
end

-- Quota, `q`: a balance for each calendar period. Lua knows no calendar, so the limit's figures are when this period begins,
-- when it ends and when the next one ends. Outside these there is no answer: the caller must look again.
local function read_quota(key, limit)
  local stored = call('HMGET', key, 'count', 'window_start', 'window_end', 'limit')
  local ends, text = tonumber(stored[3]), limit[TEXT]
  local same = stored[4] == text
  local known = ends and (same or goes_on(stored[4], text))
  if known and now < ends then
    return { tonumber(stored[1]), ends, 0, not same, tonumber(stored[2]), false, limit, key, false }
  end
  local begins = limit[1]
  ends = limit[2]
  if now >= ends then begins, ends = ends, limit[3] end
  if now < begins or now >= ends then return nil end
  return { 0, ends, 0, true, begins, stored[4] and not known, limit, key, false }
end

local function write_quota(key, state, limit)
  if not state[ANEW] then
    call('HSET', key, 'count', state[1])
    return
  end
  if state[STALE] then call('UNLINK', key) end
  call('HSET', key, 'count', state[1], 'window_start', state[EXTRA], 'window_end', state[2], 'limit', limit[TEXT])
  expire(key, state[2] - now)
end
