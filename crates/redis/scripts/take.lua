-- Decides a whole chain, all or nothing. `KEYS` are its counters; `ARGV[1]` is `take`, or `ask` to charge nothing.
-- Eight arguments follow for each charge: the algorithm's letter, the cost (-1: more than can ever pass), the strategy's
-- letter, the figures as text, the capacity, and three more figures that only the algorithm knows.
--
-- All counters are read before the first is written, so a refused chain has written nothing. The answer is the time; 0 if
-- the chain was charged, 1 if not, 2 if a calendar must be looked up again; and for each charge 1 if it was refused,
-- else 0, with three figures of its counter from which the caller works out what remains and how long to wait.
local count, asking = #KEYS, ARGV[1] == 'ask'
local answer, charged, blocked = { now, 0 }, {}, false
-- Counters by key, as a chain may name one twice, and what to answer of charges that are not kept: of one there is neither.
local states, before
if count > 1 or asking then states, before = {}, {} end

for i = 1, count do
  local at, key = i * 8 - 6, KEYS[i]
  local kind, cost, strategy = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
  local limit = {
    tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7]), tonumber(ARGV[at + 4]), ARGV[at + 3], kind,
  }
  local is_bucket = kind == 'b' or kind == 'p'
  local state = states and states[key]
  if not state then
    if is_bucket then state = read_bucket(key, limit)
    elseif kind == 'f' then state = read_fixed(key, limit)
    elseif kind == 's' then state = read_sliding(key, limit)
    elseif kind == 'l' then state = read_log(key, limit)
    else state = read_quota(key, limit)
    end
    if not state then return { now, 2 } end
    if states then states[key] = state end
  end

  local one, two, passes = state[1], state[2], false
  if cost >= 0 then
    if is_bucket then passes = take_bucket(state, limit, cost)
    elseif kind == 's' then passes = take_sliding(state, limit, cost)
    elseif kind == 'l' then passes = take_log(state, limit, cost)
    else passes = take_count(state, limit, cost)
    end
  end
  at = i * 4 - 1
  if not passes then
    if strategy == 'r' or strategy == 'q' then blocked = true end
    answer[at] = 1
  else
    answer[at] = 0
    if cost > 0 then
      if not state[CHARGED] then
        state[CHARGED] = true
        charged[#charged + 1] = state
      end
      if before then before[at + 1], before[at + 2] = one, two end
    end
  end
  answer[at + 1], answer[at + 2], answer[at + 3] = state[1], state[2], state[3]
end

if blocked or asking then
  answer[2] = 1
  for at, figure in pairs(before or {}) do answer[at] = figure end
  return answer
end

for i = 1, #charged do
  local state = charged[i]
  local limit, key = state[LIMIT], state[KEY]
  local kind = limit[KIND]
  if kind == 'b' or kind == 'p' then write_bucket(key, state, limit)
  elseif kind == 'f' then write_fixed(key, state, limit)
  elseif kind == 's' then write_sliding(key, state, limit)
  elseif kind == 'l' then write_log(key, state, limit)
  else write_quota(key, state, limit)
  end
end
return answer
