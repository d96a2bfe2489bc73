-- Sliding window log, `l`: every charge of the window, as fields `e<number>` = `<microsecond> <running total>`.
--
-- Numbers run on without gaps, so what is in view and when enough has left are both found by bisection. Entries that
-- have left are cut off by moving `first`; their fields are deleted some at a time, so that no call takes long.

local SWEEP = 16

local function entry(key, state, number)
  if number == state.last and state.total_of_last then return state.newest, state.total_of_last end
  local at, total = string.match(redis.call('HGET', key, 'e' .. number), '^(%d+) (%d+)$')
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
    local middle = math.floor((low + high) / 2)
    local at, total = entry(key, state, middle)
    if is_it(at, total) then high = middle else low = middle + 1 end
  end
  return low
end

function read.l(key, limit)
  local stored = redis.call('HMGET', key, 'first', 'last', 'base', 'total', 'newest', 'swept', 'limit')
  local same = stored[7] == limit.text
  if not stored[1] or not (same or goes_on(stored[7], limit.text)) then
    return { 0, 0, 0, first = 1, last = 0, base = 0, total = 0, newest = 0, swept = 1, anew = true, stale = stored[7] }
  end
  local state = {
    0, tonumber(stored[5]), 0,
    first = tonumber(stored[1]), last = tonumber(stored[2]), base = tonumber(stored[3]), total = tonumber(stored[4]),
    newest = tonumber(stored[5]), swept = tonumber(stored[6]), anew = not same, written = tonumber(stored[5]),
  }
  local view = state.first
  if state.newest + limit[1] <= now then
    view = state.last + 1
    state.seen_base = state.total
  elseif state.first <= state.last then
    view = first_that(key, state, state.first, function(at) return at + limit[1] > now end)
    state.seen_base = view > state.first and total_at(key, state, view - 1) or state.base
  end
  state.view = view
  state.seen_base = state.seen_base or state.base
  state[1] = state.total - state.seen_base
  return state
end

function take.l(state, limit, cost, key)
  local base = state.seen_base or state.base
  local excess = state.total - base + cost - limit.capacity
  if excess > 0 then
    local number = first_that(key, state, state.view or state.first, function(_, total) return total >= base + excess end)
    local at = number <= state.last and entry(key, state, number) or now
    state[3] = at + limit[1]
    return false
  end
  if cost == 0 then return true end
  state.first, state.base = state.view or state.first, base
  if state.first > state.last then state.base, state.total = 0, 0 end
  state.seen_base, state.view = state.base, state.first
  state.total = state.total + cost
  if state.first > state.last or state.newest < now then
    if state.first > state.last and state.last > 0 then state.emptied = true end
    state.last, state.newest = state.last + 1, now
    if state.first > state.last then state.first, state.view = state.last, state.last end
  end
  state.total_of_last = state.total
  state[1], state[2] = state.total - state.base, state.newest
  return true
end

function write.l(key, state, limit)
  if state.stale or state.emptied then
    redis.call('UNLINK', key)
    state.swept, state.anew = state.first, true
  end
  local done = math.min(state.first, state.swept + SWEEP)
  for number = state.swept, done - 1 do redis.call('HDEL', key, 'e' .. number) end
  redis.call('HSET', key, 'count', state.total - state.base, 'newest', state.newest,
    'first', state.first, 'last', state.last, 'base', state.base, 'total', state.total, 'swept', done,
    'limit', limit.text, 'e' .. state.last, string.format('%.0f %.0f', state.newest, state.total))
  if state.anew or math.floor(state.newest / SLACK) ~= math.floor(state.written / SLACK) then
    expire(key, state.newest + limit[1] - now)
  end
end

-- Later entries' totals must follow. So many of them are too many for one call: then the charge stays.
local FOLLOWERS = 1024

function back.l(key, limit, cost, _, made_at)
  local stored = redis.call('HMGET', key, 'first', 'last', 'base', 'total', 'newest', 'limit')
  if stored[6] ~= limit.text then return end
  local state = { first = tonumber(stored[1]), last = tonumber(stored[2]), newest = tonumber(stored[5]) }
  local base, total = tonumber(stored[3]), tonumber(stored[4])
  local number = first_that(key, state, state.first, function(at) return at >= made_at end)
  if number > state.last or state.last - number > FOLLOWERS then return end
  local at, total_here = entry(key, state, number)
  if at ~= made_at then return end
  local before = number > state.first and total_at(key, state, number - 1) or base
  local given = math.min(total_here - before, cost)
  for later = number, state.last do
    local later_at, later_total = entry(key, state, later)
    redis.call('HSET', key, 'e' .. later, string.format('%.0f %.0f', later_at, later_total - given))
  end
  total = total - given
  -- Emptied entries at the end go: the newest is when the log is renewed. Emptied ones before them change nothing.
  local last, newest = state.last, state.newest
  while last >= state.first do
    local last_at, last_total = entry(key, state, last)
    local prior = last > state.first and total_at(key, state, last - 1) or base
    newest = last_at
    if last_total > prior then break end
    redis.call('HDEL', key, 'e' .. last)
    last = last - 1
  end
  if last < state.first then
    redis.call('UNLINK', key)
  else
    redis.call('HSET', key, 'last', last, 'newest', newest, 'total', total, 'count', total - base)
  end
end
