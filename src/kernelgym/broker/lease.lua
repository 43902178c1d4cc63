-- The lease protocol, second half: the operations (tasks.lua, the first half, explains the keys).

local ops = {}

-- client batch digest n {id key digest content force class priority deadline_ms body}*n
local WIDTH = 9
local function item(i)
  local at = 6 + (i - 1) * WIDTH
  return {
    id = ARGV[at], key = ARGV[at + 1], digest = ARGV[at + 2], content = ARGV[at + 3], force = ARGV[at + 4],
    class = ARGV[at + 5], priority = ARGV[at + 6], deadline = ARGV[at + 7], body = ARGV[at + 8],
  }
end

local function check_items(client, n)
  local seen, fresh, bytes = {}, 0, 0
  for i = 1, n do
    local it = item(i)
    local known = it.key ~= '' and call('HGET', P .. 'idem:' .. client, it.key)
    local digest = known and get(known, 'digest') or seen[it.key]
    if digest and digest ~= it.digest then return { 'conflict', tostring(i - 1) } end
    if not digest then
      fresh, bytes = fresh + 1, bytes + #it.body
      if it.key ~= '' then seen[it.key] = it.digest end
    end
  end
  if fresh == 0 then return nil end
  local waiting = tonumber(call('HGET', P .. 'states', 'queued') or 0)
  local mine = tonumber(call('HGET', P .. 'open', client) or 0)
  local used = tonumber(call('HGET', P .. 'states', 'bytes') or 0)
  if waiting + fresh > config('max_queued', 200000) then return { 'full', 'queue' } end
  if mine + fresh > config('max_open_per_client', 100000) then return { 'full', 'client' } end
  if used + bytes > config('max_bytes', 4e9) then return { 'full', 'bytes' } end
end

local function create(it, client, batch)
  local seq = call('INCR', P .. 'sequence')
  put(it.id, 'client', client, 'key', it.key, 'digest', it.digest, 'content', it.content, 'force', it.force,
    'class', it.class, 'priority', it.priority, 'score', (9 - it.priority) * 17592186044416 + seq,
    'attempts', 0, 'failures', 0, 'batches', batch, 'submitted', NOW, 'deadline', NOW + it.deadline,
    'body', it.body, 'bytes', 0)
  charge(it.id, #it.body)
  move(it.id, 'queued')
  call('HINCRBY', P .. 'open', client, 1)
  call('ZADD', P .. 'deadlines', NOW + it.deadline, it.id)
  if it.key ~= '' then call('HSET', P .. 'idem:' .. client, it.key, it.id) end
  count('submitted')
end

function ops.submit()
  local client, batch, digest, n = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
  local b = P .. 'batch:' .. batch
  local known = call('HGET', b, 'digest')
  if known then
    if known ~= digest then return { 'conflict', '' } end
    return { 'same', unpack(call('LRANGE', b .. ':ids', 0, -1)) }
  end
  local refused = check_items(client, n)
  if refused then return refused end
  local ids, fresh, members, total = {}, {}, {}, 0
  for i = 1, n do
    local it = item(i)
    local id = it.key ~= '' and call('HGET', P .. 'idem:' .. client, it.key) or nil
    if not id then
      id = it.id
      create(it, client, batch)
      fresh[#fresh + 1] = id
    elseif not members[id] then
      put(id, 'batches', get(id, 'batches') .. ' ' .. batch)
    end
    if not members[id] then members[id], total = true, total + 1 end
    ids[i] = id
    call('RPUSH', b .. ':ids', id)
  end
  call('HSET', b, 'client', client, 'digest', digest, 'total', total, 'done', 0, 'created', NOW)
  for _, id in ipairs(fresh) do
    members[id] = nil
    if not answered(id, false) then enqueue(id) end
  end
  for _, id in ipairs(ids) do -- what an earlier batch holds already, finished or not
    if members[id] then
      members[id] = nil
      if call('ZSCORE', P .. 'expiry', 'task:' .. id) then
        call('ZADD', P .. 'expiry', NOW + TTL, 'task:' .. id)
        announce(batch, id)
      end
    end
  end
  return { 'ok', unpack(ids) }
end

local function next_class(first)
  local best, best_turn
  for i = first, #ARGV do
    local turn = tonumber(call('HGET', P .. 'turns', ARGV[i]) or 0)
    if call('EXISTS', P .. 'active:' .. ARGV[i]) == 1 and (not best or turn < best_turn) then
      best, best_turn = ARGV[i], turn
    end
  end
  return best
end

local function lease(id, worker, until_ms)
  call('HINCRBY', P .. 'task:' .. id, 'attempts', 1)
  move(id, 'leased')
  put(id, 'worker', worker, 'claimed', NOW)
  call('ZADD', P .. 'leases', until_ms, id)
  call('SADD', P .. 'held:' .. worker, id)
  count('claimed')
end

local function hand_out(class, worker, until_ms)
  local client, start = unpack(call('ZRANGE', P .. 'active:' .. class, 0, 0, 'WITHSCORES'))
  local id = call('ZPOPMIN', P .. 'queue:' .. class .. ':' .. client)[1]
  local leased = false
  if tonumber(get(id, 'deadline')) <= NOW then
    too_late(id)
  elseif not answered(id, true) then
    lease(id, worker, until_ms)
    leased = true
    call('SET', P .. 'clock:' .. class, start)
    call('ZINCRBY', P .. 'active:' .. class, 1, client)
    call('HSET', P .. 'turns', class, call('HINCRBY', P .. 'turns', '#', 1))
    call('ZREMRANGEBYSCORE', P .. 'finish:' .. class, '-inf', start)
  end
  retire(class, client)
  return leased and id
end

local function hear_of(class) call('HSET', P .. 'served', class, NOW) end

local function describe(id)
  local waited = NOW - get(id, 'submitted')
  return { id, get(id, 'attempts'), get(id, 'client'), get(id, 'class'), get(id, 'deadline') - NOW, waited,
    get(id, 'body') }
end

-- worker request lease_ms limit classes...: a repeated request gets what it got before
function ops.claim()
  local worker, request, until_ms, limit = ARGV[2], ARGV[3], NOW + ARGV[4], tonumber(ARGV[5])
  local last, tasks, record = call('HGET', P .. 'claims', worker), {}, { request }
  for i = 6, #ARGV do hear_of(ARGV[i]) end
  if last and string.match(last, '%S+') == request then
    for id, token in string.gmatch(last, ' (%S+)=(%d+)') do
      if holds(id, token) then
        call('ZADD', P .. 'leases', until_ms, id)
        tasks[#tasks + 1] = describe(id)
      end
    end
    return tasks
  end
  local class, budget = next_class(6), 1000
  while class and #tasks < limit and budget > 0 do
    local id = hand_out(class, worker, until_ms)
    if id then
      tasks[#tasks + 1] = describe(id)
      record[#record + 1] = id .. '=' .. get(id, 'attempts')
    end
    class, budget = next_class(6), budget - 1
  end
  if #tasks > 0 then call('HSET', P .. 'claims', worker, table.concat(record, ' ')) end
  for i = 6, #ARGV do
    if call('EXISTS', P .. 'active:' .. ARGV[i]) == 1 then wake(ARGV[i]) end
  end
  return tasks
end

-- worker lease_ms info classes {id token stage}*: the classes are one string, with blanks
function ops.heartbeat()
  local worker, answers = ARGV[2], {}
  call('ZADD', P .. 'workers', NOW, worker)
  call('HSET', P .. 'worker-info', worker, ARGV[4])
  for class in string.gmatch(ARGV[5], '%S+') do hear_of(class) end
  for i = 6, #ARGV, 3 do
    local id, stage = ARGV[i], ARGV[i + 2]
    if holds(id, ARGV[i + 1]) then
      call('ZADD', P .. 'leases', NOW + ARGV[3], id)
      if stage ~= get(id, 'state') and LIVE[stage] then
        move(id, stage)
        put(id, stage, NOW)
      end
      answers[#answers + 1] = 'ok'
    else
      answers[#answers + 1] = get(id, 'state') == 'cancelled' and 'cancelled' or 'stale'
    end
  end
  return answers
end

-- {id token kind(verdict|retry|release) detail outcome result}*
function ops.complete()
  local answers = {}
  for i = 2, #ARGV, 6 do
    local id, token, kind, detail = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
    local answer = 'ok'
    if holds(id, token) then
      put(id, 'settled', token)
      if kind == 'verdict' then
        finish(id, 'done', '', ARGV[i + 4], ARGV[i + 5])
        remember(id, ARGV[i + 4])
      elseif kind == 'retry' then
        infrastructure_failure(id, detail, ARGV[i + 4], ARGV[i + 5])
      else
        back_to_queue(id)
      end
    elseif get(id, 'settled') == token then
      answer = 'same'
    else
      answer = get(id, 'state') == 'cancelled' and 'cancelled' or 'stale'
      count('stale_refused')
    end
    answers[#answers + 1] = answer
  end
  return answers
end

-- client ids...: a client cancels its own tasks only; client '' is the operator
function ops.cancel()
  local answers = {}
  for i = 3, #ARGV do
    local id = ARGV[i]
    local state = get(id, 'state')
    if not state or (ARGV[2] ~= '' and get(id, 'client') ~= ARGV[2]) then
      answers[#answers + 1] = 'unknown'
    elseif state == 'queued' or LIVE[state] then
      finish(id, 'cancelled', 'cancelled', '', '')
      answers[#answers + 1] = 'cancelled'
    else
      answers[#answers + 1] = state
    end
  end
  return answers
end

-- worker lost(1|0): it died, or it leaves; either way its tasks go back
function ops.evict()
  local worker = ARGV[2]
  local ids = call('SMEMBERS', P .. 'held:' .. worker)
  table.sort(ids)
  for _, id in ipairs(ids) do
    if ARGV[3] == '1' then infrastructure_failure(id, 'worker_lost', '', '') else back_to_queue(id) end
  end
  call('ZREM', P .. 'workers', worker)
  call('HDEL', P .. 'worker-info', worker)
  call('HDEL', P .. 'claims', worker)
  return ids
end

local function forget(name)
  local kind, id = string.match(name, '^(%a+):(.+)$')
  if kind == 'batch' then
    call('DEL', P .. name, P .. name .. ':ids', P .. name .. ':events')
    return
  end
  local client, key, pointer = get(id, 'client'), get(id, 'key'), P .. 'content:' .. get(id, 'content')
  if key ~= '' then call('HDEL', P .. 'idem:' .. client, key) end
  if call('GET', pointer) == id then call('DEL', pointer) end
  call('HINCRBY', P .. 'states', get(id, 'state'), -1)
  call('HINCRBY', P .. 'states', 'bytes', -get(id, 'bytes'))
  call('LREM', P .. 'recent', 0, id)
  call('DEL', P .. 'task:' .. id)
end

-- class: the token was taken by somebody who cannot use it
function ops.wake()
  if call('EXISTS', P .. 'active:' .. ARGV[2]) == 1 then wake(ARGV[2]) end
end

-- limit: expired deadlines, leases and results, workers not heard of, lost wake tokens
function ops.reap()
  local limit, done = ARGV[2], {}
  local function due(name) return call('ZRANGEBYSCORE', P .. name, '-inf', NOW, 'LIMIT', 0, limit) end
  local late = due('deadlines')
  for _, id in ipairs(late) do too_late(id) end
  local expired = due('leases')
  for _, id in ipairs(expired) do
    count('lease_expired')
    infrastructure_failure(id, 'lease_expired', '', '')
  end
  local old = due('expiry')
  for _, name in ipairs(old) do
    call('ZREM', P .. 'expiry', name)
    forget(name)
  end
  local silent = NOW - config('worker_ttl_ms', 600000)
  for _, worker in ipairs(call('ZRANGEBYSCORE', P .. 'workers', '-inf', silent, 'LIMIT', 0, limit)) do
    call('ZREM', P .. 'workers', worker)
    call('HDEL', P .. 'worker-info', worker)
    call('HDEL', P .. 'claims', worker)
  end
  for _, class in ipairs(call('SMEMBERS', P .. 'classes')) do
    if call('EXISTS', P .. 'active:' .. class) == 1 then wake(class) end
  end
  return { #late, #expired, #old }
end

return ops[op]()
