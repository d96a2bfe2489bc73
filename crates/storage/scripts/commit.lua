-- Makes lists of changes, each all or nothing: a list is first tried on what it reads, and written only if all of it can be.
-- Arguments after the first two: the channel to tell others on, the most answers that are remembered, how many entries of the
-- log are kept, then the lists as JSON. In them everything but an operation's name is text, because numbers of JSON are doubles here.
--
-- The answer is JSON: for each list `{"keys": rows, "versions": texts, "first": …, "last": …, "before": …}`, where the latter three are
-- its places in the log and who made the change before them, or `{"error": [what, …]}`.
local channel, most_answers, log_length = ARGV[3], tonumber(ARGV[4]), ARGV[5]
local keys_of, objects_of, answers = base .. 'keys', base .. 'objects:', base .. 'answers'

local function attempt(list)
  local versions = counted(call('HGET', meta, 'versions'))
  local rows, new_rows, dirty_rows = {}, {}, {}
  local objects, dirty_objects, in_force, remembered, dirty_answers, audit = {}, {}, {}, {}, {}, {}
  local told_rows, told_versions, log, is_logged = {}, {}, {}, {}

  local function row_of(id)
    local row = rows[id]
    if row == nil then
      local text = call('HGET', keys_of, id)
      row = text and cjson.decode(text) or false
      rows[id] = row
    end
    return row
  end
  local function note(what)
    if not is_logged[what] then
      is_logged[what] = true
      log[#log + 1] = what
    end
  end
  local function touch(row)
    rows[row.id] = row
    dirty_rows[#dirty_rows + 1] = row.id
    told_rows[#told_rows + 1] = cjson.encode(row)
    note('k' .. row.id)
  end
  -- One that has ended is not counted any more once it was found by tidying, which says so in its row.
  local function count(row, by)
    if row.revoked_at or row.ended then return end
    local tenant = 'tenant:' .. row.tenant
    in_force[tenant] = (in_force[tenant] or 0) + by
    local plan = plan_of(row)
    if plan then
      plan = 'plan:' .. plan
      in_force[plan] = (in_force[plan] or 0) + by
    end
  end
  local function follow(row, newest)
    count(row, -1)
    row.goes_by = newest.plan or ''
    count(row, 1)
  end
  -- All that were replaced before it in its line go by its plan from here on.
  local function lead(newest)
    local row = row_of(newest.origin)
    while row and row.id ~= newest.id do
      follow(row, newest)
      dirty_rows[#dirty_rows + 1] = row.id
      row = row.replaced_by and row_of(row.replaced_by)
    end
  end
  local function issue(row)
    if row_of(row.id) then return { 'exists', 'key ' .. row.id } end
    new_rows[#new_rows + 1] = row.id
    count(row, 1)
    touch(row)
  end

  -- Version, moment and body of an object, one after another with blanks between; false if there is none.
  local function object_of(kind, id)
    local name = kind .. ' ' .. id
    local object = objects[name]
    if object == nil then
      object = call('HGET', objects_of .. kind, id)
      objects[name] = object
    end
    return object
  end
  local function set_object(op, object)
    objects[op.kind .. ' ' .. op.id] = object
    dirty_objects[#dirty_objects + 1] = { op.kind, op.id }
    note('o' .. op.kind .. ' ' .. op.id)
  end
  -- Refuses what `expect` does not allow.
  local function check(op)
    local object, what = object_of(op.kind, op.id), op.kind .. ' ' .. op.id
    local found = object and string.match(object, '^%d+')
    if op.expect == 'anything' then return end
    if op.expect == 'absent' then return found and { 'exists', what } end
    if not found then return { 'not_found', what } end
    if op.expect ~= 'present' and op.expect ~= found then return { 'stale', what, found } end
  end

  local ops = {}
  function ops.issue(op) return issue(op.row) end
  function ops.update(op)
    local row = row_of(op.id)
    if not row then return { 'not_found', 'key ' .. op.id } end
    count(row, -1)
    local plan = row.plan
    for _, field in ipairs({ 'plan', 'name', 'rate_limit', 'expires_at' }) do row[field] = op.terms[field] end
    row.ended = nil
    count(row, 1)
    touch(row)
    if row.plan ~= plan and not row.replaced_by then lead(row) end
  end
  function ops.rotate(op)
    local row = row_of(op.id)
    if not row then return { 'not_found', 'key ' .. op.id } end
    if row.revoked_at or row.replaced_by then return { 'not_current', op.id, row.replaced_by or '' } end
    row.replaced_by, row.grace_until = op.row.id, op.grace_until
    follow(row, op.row)
    touch(row)
    local fault = issue(op.row)
    if not fault and op.row.plan ~= row.plan then lead(op.row) end
    return fault
  end
  function ops.revoke(op)
    local row = row_of(op.id)
    if not row then return { 'not_found', 'key ' .. op.id } end
    if not row.revoked_at then
      count(row, -1)
      row.revoked_at = op.at
    end
    touch(row)
  end
  function ops.put(op)
    local fault = check(op)
    if fault then return fault end
    versions = versions + 1
    told_versions[#told_versions + 1] = whole(versions)
    set_object(op, whole(versions) .. ' ' .. op.at .. ' ' .. op.body)
  end
  function ops.remove(op)
    local fault = check(op)
    if fault then return fault end
    local name = op.kind .. ':' .. op.id
    local keys = counted(call('HGET', base .. 'in_force', name)) + (in_force[name] or 0)
    if keys > 0 then return { 'in_use', op.kind .. ' ' .. op.id, whole(keys) } end
    versions = versions + 1
    set_object(op, false)
  end
  function ops.needs(op)
    if not object_of(op.kind, op.id) then return { 'not_found', op.kind .. ' ' .. op.id } end
  end
  function ops.unchanged(op)
    if whole(versions) ~= op.since then return { 'moved' } end
  end
  function ops.audit(op) audit[#audit + 1] = op end
  function ops.remember(op)
    local earlier = remembered[op.key] or call('HGET', answers, op.key)
    if earlier and cjson.decode(earlier).at > op.forgotten then return { 'answered', op.key, earlier } end
    remembered[op.key] = op.answer
    dirty_answers[#dirty_answers + 1] = op.key
  end

  for _, op in ipairs(list) do
    local fault = ops[op.op](op)
    if fault then return { error = fault } end
  end

  for _, id in ipairs(dirty_rows) do
    local row = rows[id]
    call('HSET', keys_of, id, cjson.encode(row))
    -- The first of the moments that it ends at; both are texts of one length.
    local ends = row.expires_at
    if row.grace_until and not (ends and ends < row.grace_until) then ends = row.grace_until end
    if ends and not row.revoked_at and not row.ended then call('ZADD', base .. 'ends', ends, id)
    else call('ZREM', base .. 'ends', id)
    end
  end
  for _, id in ipairs(new_rows) do
    local place = call('HINCRBY', meta, 'issued', 1)
    call('ZADD', base .. 'order', place, id)
    call('ZADD', base .. 'order:' .. rows[id].tenant, place, id)
  end
  for name, by in pairs(in_force) do
    if by ~= 0 and call('HINCRBY', base .. 'in_force', name, by) <= 0 then call('HDEL', base .. 'in_force', name) end
  end
  for _, object in ipairs(dirty_objects) do
    local value = objects[object[1] .. ' ' .. object[2]]
    if value then call('HSET', objects_of .. object[1], object[2], value)
    else call('HDEL', objects_of .. object[1], object[2])
    end
  end
  if #dirty_objects > 0 then call('HSET', meta, 'versions', whole(versions)) end
  for _, op in ipairs(audit) do
    call('XADD', base .. 'audit', whole(call('HINCRBY', meta, 'audited', 1)) .. '-0', 'at', op.at, 'row', op.row)
  end
  for _, key in ipairs(dirty_answers) do
    call('HSET', answers, key, remembered[key])
    call('ZADD', answers .. ':order', call('HINCRBY', meta, 'answered', 1), key)
  end
  if #dirty_answers > 0 then
    local over = call('ZCARD', answers .. ':order') - most_answers
    while over > 0 do
      local popped = call('ZPOPMIN', answers .. ':order', math.min(over, 1000))
      for nth = 1, #popped, 2 do call('HDEL', answers, popped[nth]) end
      over = over - 1000
    end
  end
  local before, last = #log > 0 and made_by(call('HGET', meta, 'changes')) or nil, nil
  for _, what in ipairs(log) do
    last = call('HINCRBY', meta, 'changes', 1)
    call('XADD', base .. 'changes', 'MAXLEN', '~', log_length, whole(last) .. '-0', 'what', what, 'by', ARGV[1] .. ' ' .. ARGV[2])
  end
  return {
    keys = #told_rows > 0 and told_rows or nil,
    versions = #told_versions > 0 and told_versions or nil,
    first = last and whole(last - #log + 1), last = last and whole(last), before = before,
  }
end

local done, last = {}, nil
for nth = 6, #ARGV do
  local made = attempt(cjson.decode(ARGV[nth]))
  last = made.last or last
  done[#done + 1] = made
end
-- Whoever may not publish is heard of by those who look by themselves.
if last then redis.pcall('PUBLISH', channel, last) end
return answered(cjson.encode({ done = done }))
