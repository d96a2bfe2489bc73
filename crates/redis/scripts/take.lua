-- Decides a whole chain, all or nothing. `KEYS` are its counters; `ARGV[1]` is `take`, or `ask` to charge nothing.
-- Eight arguments follow for each charge: the algorithm's letter, the cost (-1: more than can ever pass), the strategy's
-- letter, the figures as text, the capacity, and three more figures that only the algorithm knows.
--
-- All counters are read before the first is written, so a refused chain has written nothing. The answer is the time; 0 if
-- the chain was charged, 1 if not, 2 if a calendar must be looked up again; and for each charge 1 if it was refused,
-- else 0, with three figures of its counter from which the caller works out what remains and how long to wait.
local answer, states, blocked = { now, 0 }, {}, false
local asking = ARGV[1] == 'ask'
local limits, before = {}, {}

for i = 1, #KEYS do
  local at, key = i * 8 - 6, KEYS[i]
  local kind, cost = ARGV[at], tonumber(ARGV[at + 1])
  local limit = {
    tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7]),
    kind = kind, text = ARGV[at + 3], capacity = tonumber(ARGV[at + 4]),
  }
  limits[i] = limit
  local state = states[key]
  if not state then
    state = read[kind](key, limit)
    if state.unknown then return { now, 2 } end
    states[key] = state
  end
  local one, two, three = state[1], state[2], state[3]
  local passes = cost >= 0 and take[kind](state, limit, cost, key)
  local strategy = ARGV[at + 2]
  if not passes and (strategy == 'r' or strategy == 'q') then blocked = true end
  if passes and cost > 0 then
    state.charged = true
    before[i] = { one, two, three }
  end
  at = i * 4 - 1
  answer[at], answer[at + 1], answer[at + 2], answer[at + 3] = passes and 0 or 1, state[1], state[2], state[3]
end

if blocked or asking then
  answer[2] = 1
  for i, was in pairs(before) do
    local at = i * 4
    answer[at], answer[at + 1], answer[at + 2] = was[1], was[2], was[3]
  end
else
  for i = 1, #KEYS do
    local state = states[KEYS[i]]
    if state.charged then
      write[limits[i].kind](KEYS[i], state, limits[i])
      state.charged = false
    end
  end
end
return answer
