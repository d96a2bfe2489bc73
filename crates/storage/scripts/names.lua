-- What all scripts of the store share. Their one key is `<base>:meta`; every other name begins with the same base, and so is
-- in the same slot of a cluster.
local call = redis.call
local meta = KEYS[1]
local base = string.sub(meta, 1, #meta - 4)
local function whole(number) return string.format('%.0f', number) end
local function counted(text) return tonumber(text) or 0 end
-- Who made the change at a place of the log, by which call: after a failover another one may have taken its place.
local function made_by(place)
  local id = (place or '0') .. '-0'
  local entry = call('XRANGE', base .. 'changes', id, id)[1]
  return entry and entry[2][4] or ''
end
-- The plan that a key goes by. One that was replaced goes by that of the last of its line, which is noted with it, empty for none;
-- where nothing is noted it has the same.
local function plan_of(row)
  if not (row.replaced_by and row.goes_by) then return row.plan end
  if row.goes_by ~= '' then return row.goes_by end
end
