-- Gives charges back. For each: the algorithm's letter, the cost, the figures as text, the capacity, three more figures of the
-- algorithm, and the three figures and the time that the charge was answered with.

-- The charge left (tokens, part) at `at`. What it still owes is at most what that bucket would still lack now.
local function back_bucket(key, limit, cost, tokens, part, at)
  local capacity, per_us, per_token = limit[CAPACITY], limit[1], limit[2]
  local stored = call('HMGET', key, 'tokens', 'part', 'limit')
  -- Other figures have other units: the charge stays, and time repays it.
  if stored[3] ~= limit[TEXT] then return end
  local would, would_part = refill(tokens, part, at, capacity, per_us, per_token)
  local whole, rest = capacity - would, -would_part
  if whole > cost or (whole == cost and rest >= 0) then whole, rest = cost, 0 end
  local held, held_part = tonumber(stored[1]) + whole, tonumber(stored[2]) + rest
  if held_part < 0 then held, held_part = held - 1, held_part + per_token end
  call('HSET', key, 'tokens', held, 'part', held_part)
end

local function back_fixed(key, limit, cost, start)
  local state = read_fixed(key, limit)
  if state[ANEW] or state[2] ~= start then return end
  call('HSET', key, 'count', math.max(state[1] - cost, 0))
end

local function back_sliding(key, limit, cost, start)
  local state = read_sliding(key, limit)
  if state[STALE] then return end
  if start == state[3] then
    state[1] = math.max(state[1] - cost, 0)
  elseif start == state[3] - limit[1] then
    state[2] = math.max(state[2] - cost, 0)
  else
    return
  end
  if state[ANEW] then
    write_sliding(key, state, limit)
  else
    call('HSET', key, 'count', state[1], 'previous', state[2])
  end
end

local function back_quota(key, limit, cost, ends)
  local stored = call('HMGET', key, 'count', 'window_end', 'limit')
  if stored[3] ~= limit[TEXT] or tonumber(stored[2]) ~= ends or now >= ends then return end
  call('HSET', key, 'count', math.max(tonumber(stored[1]) - cost, 0))
end

-- Later entries' totals must follow. More of them than this are too many for one call: then the charge stays.
local FOLLOWERS = 1024

local function back_log(key, limit, cost, made_at)
  local stored = call('HMGET', key, 'first', 'last', 'base', 'total', 'limit')
  if stored[5] ~= limit[TEXT] then return end
  local state = { last = tonumber(stored[2]) }
  local first, base, total = tonumber(stored[1]), tonumber(stored[3]), tonumber(stored[4])
  local number = first_that(key, state, first, function(at) return at >= made_at end)
  if number > state.last or state.last - number > FOLLOWERS then return end
  local at, total_here = entry(key, state, number)
  if at ~= made_at then return end
  local before = number > first and total_at(key, state, number - 1) or base
  local given = math.min(total_here - before, cost)
  for later = number, state.last do
    local later_at, later_total = entry(key, state, later)
    call('HSET', key, 'e' .. later, string.format('%.0f %.0f', later_at, later_total - given))
  end
  -- Emptied entries at the end go: the newest is when the log is renewed. Emptied ones before them change nothing.
  local last, newest = state.last, nil
  while last >= first do
    local last_at, last_total = entry(key, state, last)
    if last_total > (last > first and total_at(key, state, last - 1) or base) then
      newest = last_at
      break
    end
    call('HDEL', key, 'e' .. last)
    last = last - 1
  end
  if not newest then
    call('UNLINK', key)
  else
    total = total - given
    call('HSET', key, 'last', last, 'newest', newest, 'total', total, 'count', total - base)
  end
end

for i = 1, #KEYS do
  local at, key = i * 11 - 10, KEYS[i]
  local kind, cost = ARGV[at], tonumber(ARGV[at + 1])
  local limit = {
    tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6]), tonumber(ARGV[at + 3]), ARGV[at + 2], kind,
  }
  local one, two, three = tonumber(ARGV[at + 7]), tonumber(ARGV[at + 8]), tonumber(ARGV[at + 9])
  if call('EXISTS', key) == 1 then
    if kind == 'b' or kind == 'p' then back_bucket(key, limit, cost, one, two, tonumber(ARGV[at + 10]))
    elseif kind == 'f' then back_fixed(key, limit, cost, two)
    elseif kind == 's' then back_sliding(key, limit, cost, three)
    elseif kind == 'l' then back_log(key, limit, cost, two)
    else back_quota(key, limit, cost, two)
    end
  end
end
return now
