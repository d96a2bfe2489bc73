-- Deletes a slice of what is too old. Arguments: the first day of which usage is kept, the first moment of which audit rows are,
-- the last moment of answers that are forgotten, how many of each kind are a slice, and the present moment, at which keys that have
-- ended are counted no more among those in force. Moments are texts of one length, so
-- they compare as numbers do. Answers 1 if there may be more.
local first_day, audit_from, forgotten, slice = tonumber(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
local usage = 0
while usage < slice do
  local day = call('ZRANGE', base .. 'usage:days', 0, 0)[1]
  if not day or tonumber(day) >= first_day then break end
  local of_day = base .. 'usage:' .. day
  local tenant = call('SPOP', of_day)
  if tenant then
    local name = of_day .. ':' .. tenant
    usage = usage + call('HLEN', name)
    -- Freed by another thread of the server.
    call('UNLINK', name)
  else
    call('ZREM', base .. 'usage:days', day)
  end
end
local audited = 0
for _, entry in ipairs(call('XRANGE', base .. 'audit', '-', '+', 'COUNT', slice)) do
  if entry[2][2] < audit_from then
    call('XDEL', base .. 'audit', entry[1])
    audited = audited + 1
  end
end
local answers = 0
for _, key in ipairs(call('ZRANGE', base .. 'answers:order', 0, slice - 1)) do
  local answer = call('HGET', base .. 'answers', key)
  if not answer or cjson.decode(answer).at <= forgotten then
    call('ZREM', base .. 'answers:order', key)
    call('HDEL', base .. 'answers', key)
    answers = answers + 1
  end
end
local ended, now = 0, ARGV[5]
for _, id in ipairs(call('ZRANGEBYSCORE', base .. 'ends', '-inf', now, 'LIMIT', 0, slice)) do
  local row = cjson.decode(call('HGET', base .. 'keys', id))
  local plan = plan_of(row)
  for _, name in ipairs({ 'tenant:' .. row.tenant, plan and 'plan:' .. plan or nil }) do
    if call('HINCRBY', base .. 'in_force', name, -1) <= 0 then call('HDEL', base .. 'in_force', name) end
  end
  row.ended = '1'
  call('HSET', base .. 'keys', id, cjson.encode(row))
  call('ZREM', base .. 'ends', id)
  ended = ended + 1
end
return (ended >= slice or usage >= slice or audited >= slice or answers >= slice) and 1 or 0
