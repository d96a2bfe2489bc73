-- Gives charges back, each once: a receipt is the letter, the cost, the figures as text, the capacity, three more figures
-- of the algorithm, and the three figures and the time that the charge was answered with.
for i = 1, #KEYS do
  local at = i * 11 - 10
  local kind = ARGV[at]
  local limit = {
    tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6]),
    kind = kind, text = ARGV[at + 2], capacity = tonumber(ARGV[at + 3]),
  }
  local one, two, three = tonumber(ARGV[at + 7]), tonumber(ARGV[at + 8]), tonumber(ARGV[at + 9])
  if kind == 'b' or kind == 'p' then three = tonumber(ARGV[at + 10]) end
  if redis.call('EXISTS', KEYS[i]) == 1 then back[kind](KEYS[i], limit, tonumber(ARGV[at + 1]), one, two, three) end
end
return now
