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

local function known_ids(client, items) -- key -> task
  local keys, known = {}, {}
  for _, it in ipairs(items) do
    if it.key ~= '' then keys[#keys + 1] = it.key end
  end
  for i = 1, #keys, PIECE do
    local part = { unpack(keys, i, math.min(i + PIECE - 1, #keys)) }
    for j, id in ipairs(call('HMGET', P .. 'idem:' .. client, unpack(part))) do
      known[part[j]] = id or nil
    end
  end
  return known
end

local function check_items(client, items, known)
  local seen, fresh, bytes = {}, 0, 0
  for i, it in ipairs(items) do
    local id = known[it.key]
    local digest = id and get(id, 'digest') or seen[it.key]
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

local function create(it, client, batch, seq)
  it.score = (9 - it.priority) * 17592186044416 + seq
  put(it.id, 'client', client, 'key', it.key, 'digest', it.digest, 'content', it.content, 'force', it.force,
    'class', it.class, 'priority', it.priority, 'score', it.score, 'attempts', 0, 'failures', 0,
    'batches', batch, 'submitted', NOW, 'deadline', NOW + it.deadline, 'body', it.body, 'bytes', #it.body,
    'state', 'queued')
  add('states', 'queued', 1)
  add('states', 'bytes', #it.body)
  add('open', client, 1)
  count('submitted')
end

-- The items that no task stands for yet become tasks; `ids` gets the task of each item.
local function create_fresh(items, known, ids, client, batch)
  local fresh, keys, deadlines = {}, {}, {}
  for i, it in ipairs(items) do
    ids[i] = known[it.key]
    if not ids[i] then
      ids[i], fresh[#fresh + 1] = it.id, it
      deadlines[#deadlines + 1], deadlines[#deadlines + 2] = NOW + it.deadline, it.id
      if it.key ~= '' then
        known[it.key] = it.id
        keys[#keys + 1], keys[#keys + 2] = it.key, it.id
      end
    end
  end
  local last = call('INCRBY', P .. 'sequence', #fresh)
  for i, it in ipairs(fresh) do create(it, client, batch, last - #fresh + i) end
  many('ZADD', P .. 'deadlines', deadlines)
  many('HSET', P .. 'idem:' .. client, keys)
  return fresh
end

local function enqueue_fresh(fresh, client)
  local queues = {}
  for _, it in ipairs(fresh) do
    if not answered(it.id, false, it.force, it.content) then
      local queue = queues[it.class] or {}
      queue[#queue + 1], queue[#queue + 2] = it.score, it.id
      queues[it.class] = queue
    end
  end
  for class, queue in pairs(queues) do
    many('ZADD', P .. 'queue:' .. class .. ':' .. client, queue)
    attend(class, client)
  end
end

function ops.submit()
  local client, batch, digest, n = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
  local b = P .. 'batch:' .. batch
  local same = call('HGET', b, 'digest')
  if same then
    if same ~= digest then return { 'conflict', '' } end
    return { 'same', unpack(call('LRANGE', b .. ':ids', 0, -1)) }
  end
  local items, ids, older, members, total = {}, {}, {}, {}, 0
  for i = 1, n do items[i] = item(i) end
  local known = known_ids(client, items)
  local refused = check_items(client, items, known)
  if refused then return refused end
  local fresh = create_fresh(items, known, ids, client, batch)
  for _, it in ipairs(fresh) do members[it.id], total = true, total + 1 end
  for _, id in ipairs(ids) do -- what an earlier batch holds already
    if not members[id] then
      members[id], total, older[#older + 1] = true, total + 1, id
      put(id, 'batches', get(id, 'batches') .. ' ' .. batch)
    end
  end
  many('RPUSH', b .. ':ids', ids)
  call('HSET', b, 'client', client, 'digest', digest, 'total', total, 'done', 0, 'created', NOW)
  enqueue_fresh(fresh, client)
  for _, id in ipairs(older) do
    if call('ZSCORE', P .. 'expiry', 'task:' .. id) then -- it has ended
      call('ZADD', P .. 'expiry', NOW + TTL, 'task:' .. id)
      announce(batch, id)
    end
  end
  return { 'ok', unpack(ids) }
end

-- Classes take turns, and so do the clients of one.
local function read_turns(first)
  local turns = call('HMGET', P .. 'turns', '#', unpack(ARGV, first))
  local of = { ['#'] = tonumber(turns[1] or 0) }
  for i = first, #ARGV do of[ARGV[i]] = tonumber(turns[i - first + 2] or 0) end
  return of
end

local function next_class(first, turns)
  local best
  for i = first, #ARGV do
    local class = ARGV[i]
    if call('EXISTS', P .. 'active:' .. class) == 1 and (not best or turns[class] < turns[best]) then best = class end
  end
  return best
end

local function write_turns(first, turns)
  local values = { '#', turns['#'] }
  for i = first, #ARGV do
    if turns[ARGV[i]] > 0 then values[#values + 1], values[#values + 2] = ARGV[i], turns[ARGV[i]] end
  end
  many('HSET', P .. 'turns', values)
end

-- A lease, as the worker gets it; the caller has yet to note when it ends and who holds it.
local function describe(id, attempts)
  local client, class, deadline, submitted, body = read(id, 'client', 'class', 'deadline', 'submitted', 'body')
  return { id, attempts, client, class, deadline - NOW, NOW - submitted, body }
end

local function hand_out(class, worker, turns)
  local client, start = unpack(call('ZRANGE', P .. 'active:' .. class, 0, 0, 'WITHSCORES'))
  local id = call('ZPOPMIN', P .. 'queue:' .. class .. ':' .. client)[1]
  local deadline, force, content, attempts = read(id, 'deadline', 'force', 'content', 'attempts')
  local leased
  if tonumber(deadline) <= NOW then
    too_late(id)
  elseif not answered(id, true, force, content) then
    attempts = tostring(attempts + 1)
    move(id, 'queued', 'leased', 'attempts', attempts, 'worker', worker, 'claimed', NOW)
    count('claimed')
    leased = describe(id, attempts)
    call('SET', P .. 'clock:' .. class, start)
    call('ZINCRBY', P .. 'active:' .. class, 1, client)
    turns['#'] = turns['#'] + 1
    turns[class] = turns['#']
    call('ZREMRANGEBYSCORE', P .. 'finish:' .. class, '-inf', start)
  end
  retire(class, client)
  return leased
end

local function hear_of(class) call('HSET', P .. 'served', class, NOW) end

-- worker request lease_ms limit classes...: a repeated request gets what it got before
function ops.claim()
  local worker, request, until_ms, limit = ARGV[2], ARGV[3], NOW + ARGV[4], tonumber(ARGV[5])
  local last, tasks, record = call('HGET', P .. 'claims', worker), {}, { request }
  local leases, ids = {}, {}
  for i = 6, #ARGV do hear_of(ARGV[i]) end
  if last and string.match(last, '%S+') == request then
    for id, token in string.gmatch(last, ' (%S+)=(%d+)') do
      if holds(id, token) then
        call('ZADD', P .. 'leases', until_ms, id)
        tasks[#tasks + 1] = describe(id, token)
      end
    end
    return tasks
  end
  local turns, budget = read_turns(6), 1000
  local class = next_class(6, turns)
  while class and #tasks < limit and budget > 0 do
    local task = hand_out(class, worker, turns)
    if task then
      tasks[#tasks + 1] = task
      ids[#ids + 1], record[#record + 1] = task[1], task[1] .. '=' .. task[2]
      leases[#leases + 1], leases[#leases + 2] = until_ms, task[1]
    end
    class, budget = next_class(6, turns), budget - 1
  end
  if #tasks > 0 then
    many('ZADD', P .. 'leases', leases)
    many('SADD', P .. 'held:' .. worker, ids)
    call('HSET', P .. 'claims', worker, table.concat(record, ' '))
    write_turns(6, turns)
  end
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
    local state = holds(id, ARGV[i + 1])
    if state then
      call('ZADD', P .. 'leases', NOW + ARGV[3], id)
      if stage ~= state and LIVE[stage] then move(id, state, stage, stage, NOW) end
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
  local client, key, content, state, bytes = read(id, 'client', 'key', 'content', 'state', 'bytes')
  local pointer = P .. 'content:' .. content
  if key ~= '' then call('HDEL', P .. 'idem:' .. client, key) end
  if call('GET', pointer) == id then call('DEL', pointer) end
  add('states', state, -1)
  add('states', 'bytes', -bytes)
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
  write_sums() -- before anything that they name is forgotten
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

local fine, answer = pcall(ops[op])
write_sums() -- after a fault, too: what was done is done
if not fine then error(answer, 0) end
return answer
