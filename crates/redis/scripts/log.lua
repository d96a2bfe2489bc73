-- Sliding window log, `l`: every charge of the window, as fields `e<number>` = `<microsecond> <running total>`. The limit's
-- first figure is the window.
--
-- Numbers run on without gaps, so what is in view and when enough has left are both found by bisection. Entries that
-- have left are cut off by moving `first`; their fields are deleted some at a time, so that no call takes long.
local SWEEP = 16

local function entry(key, state, number)
  if number == state.last and state.total_of_last then return state.newest, state.total_of_last end
  local at, total = string.match(call('HGET', key, 'e' .. number), '^(%d+) (%d+)$')
  return tonumber(at), tonumber(total)
end

local function total_at(key, state, number)
  local _, total = entry(key, state, number)
  return total
end

-- The first number from `low` on whose entry `is_it`; one past the last if none is.
local function first_that(key, state, low, is_it)
  local high = state.last + 1
  while low < high do
    local middle = floor((low + high) / 2)
    if is_it(entry(key, state, middle)) then high = middle else low = middle + 1 end
  end
  return low
end

-- `view` is the first entry in view, and `seen_base` the running total before it: a charge makes them `first` and `base`.
local function read_log(key, limit)
  local stored = call('HMGET', key, 'first', 'last', 'base', 'total', 'newest', 'swept', 'limit')
  local same = stored[7] == limit[TEXT]
  local state = { 0, 0, 0, not same, 0, false, limit, key, false }
  if not stored[1] or not (same or goes_on(stored[7], limit[TEXT])) then
    state[STALE] = stored[7]
    state.view, state.last, state.seen_base, state.total, state.newest, state.swept = 1, 0, 0, 0, 0, 1
    return state
  end
  local first, base = tonumber(stored[1]), tonumber(stored[3])
  state.last, state.total = tonumber(stored[2]), tonumber(stored[4])
  state.newest, state.swept = tonumber(stored[5]), tonumber(stored[6])
  state[2], state[EXTRA] = state.newest, state.newest
  if state.newest + limit[1] <= now then
    state.view, state.seen_base = state.last + 1, state.total
  else
    state.view = first_that(key, state, first, function(at) return at + limit[1] > now end)
    state.seen_base = state.view > first and total_at(key, state, state.view - 1) or base
  end
  state[1] = state.total - state.seen_base
  return state
end

local function take_log(state, limit, cost)
  local excess = state.total - state.seen_base + cost - limit[CAPACITY]
  if excess > 0 then
    local must_leave, key = state.seen_base + excess, state[KEY]
    local number = first_that(key, state, state.view, function(_, total) return total >= must_leave end)
    state[3] = entry(key, state, number) + limit[1]
    return false
  end
  if cost == 0 then return true end
  if state.view > state.last then
    state.emptied = state.last > 0
    state.seen_base, state.total = 0, 0
  end
  if state.view > state.last or state.newest < now then
    state.last, state.newest = state.last + 1, now
  end
  state.total = state.total + cost
  state.total_of_last = state.total
  state[1], state[2] = state.total - state.seen_base, state.newest
  return true
end

local function write_log(key, state, limit)
  if state[STALE] or state.emptied then
    call('UNLINK', key)
    state.swept, state[ANEW] = state.view, true
  end
  local swept = math.min(state.view, state.swept + SWEEP)
  for number = state.swept, swept - 1 do call('HDEL', key, 'e' .. number) end
  call('HSET', key, 'count', state[1], 'newest', state.newest, 'first', state.view, 'last', state.last,
    'base', state.seen_base, 'total', state.total, 'swept', swept, 'limit', limit[TEXT],
    'e' .. state.last, string.format('%.0f %.0f', state.newest, state.total))
  if state[ANEW] or floor(state.newest / SLACK) ~= floor(state[EXTRA] / SLACK) then
    expire(key, state.newest + limit[1] - now)
  end
end
