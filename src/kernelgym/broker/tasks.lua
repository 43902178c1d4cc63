-- The lease protocol, first half: tasks, queues, ends. lease.lua, the second half, has the operations;
-- the two are loaded as one script, and every operation is one atomic step on one broker.
--
--   KEYS[1] prefix of all keys; ARGV[1] operation; the rest belongs to the operation.
--
-- task:ID     hash    state queued|leased|preparing|running|done|cancelled|dead, attempts (the
--                     fencing token: a lease is worth nothing once a newer one exists), failures
--                     (infrastructure only), batches, client, class, score, content, ...
-- queue:C:K   zset    queued tasks of client K for device class C, by priority, then by age
-- active:C    zset    clients with queued tasks, by virtual start time; clock:C, finish:C belong to it
-- wake:C      list    at most one token: "class C has work"; servers block on it, nobody polls
-- leases, deadlines, expiry   zsets by millisecond;   held:W  set, tasks leased to worker W
-- batch:B, batch:B:ids, batch:B:events    the events are ids of finished tasks: a cursor is an index
-- idem:K      hash    client's key -> task;   content:H  string, the task whose verdict is shared
-- followers:ID list   queued tasks that wait for the verdict of ID, which has the same content
-- served      hash    device class -> when a worker of that class was last heard of
--
-- Time is the broker's. Not covered: who may call what (the server's job), and loss of the broker's
-- disk (clients resubmit with the same keys).

local P, op = KEYS[1], ARGV[1]
local call = redis.call
local LIVE = { leased = true, preparing = true, running = true }

local function broker_time()
  local t = call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
local NOW = broker_time()

local function config(name, default)
  return tonumber(call('HGET', P .. 'config', name) or default)
end
local TTL = config('result_ttl_ms', 86400000)

local function get(id, field) return call('HGET', P .. 'task:' .. id, field) end
local function read(id, ...) return unpack(call('HMGET', P .. 'task:' .. id, ...)) end
local function put(id, ...) call('HSET', P .. 'task:' .. id, ...) end

-- One command for many values, in pieces that Lua's stack holds.
local PIECE = 4000
local function many(command, key, values)
  for i = 1, #values, PIECE do
    call(command, key, unpack(values, i, math.min(i + PIECE - 1, #values)))
  end
end

-- What one call of the script adds up or announces is written once, at its end: `write_sums`.
local sums = { states = {}, counters = {}, open = {} }
local ended, news = {}, {} -- ids of tasks that ended; batch -> ids of its tasks that ended
local function add(hash, name, by) sums[hash][name] = (sums[hash][name] or 0) + by end
local function count(name) add('counters', name, 1) end

local function move(id, from, to, ...)
  add('states', from, -1)
  add('states', to, 1)
  put(id, 'state', to, ...)
end

local function write_sums()
  for hash, names in pairs(sums) do
    for name, by in pairs(names) do
      local left = by == 0 or call('HINCRBY', P .. hash, name, by)
      if hash == 'open' and left ~= true and left <= 0 then call('HDEL', P .. 'open', name) end
    end
    sums[hash] = {}
  end
  if #ended > 0 then
    many('LPUSH', P .. 'recent', ended)
    call('LTRIM', P .. 'recent', 0, 199)
  end
  for batch, ids in pairs(news) do
    local b = P .. 'batch:' .. batch
    many('RPUSH', b .. ':events', ids)
    if call('HINCRBY', b, 'done', #ids) == tonumber(call('HGET', b, 'total')) then
      call('ZADD', P .. 'expiry', NOW + TTL, 'batch:' .. batch)
    end
    call('PUBLISH', P .. 'finished', batch)
  end
  ended, news = {}, {}
end

-- Queues -----------------------------------------------------------------------------------------

local function wake(class)
  if call('LLEN', P .. 'wake:' .. class) == 0 then call('RPUSH', P .. 'wake:' .. class, '1') end
end

local function attend(class, client) -- the client's queue has got something
  if not call('ZSCORE', P .. 'active:' .. class, client) then
    local clock = tonumber(call('GET', P .. 'clock:' .. class) or 0)
    local finish = tonumber(call('ZSCORE', P .. 'finish:' .. class, client) or 0)
    call('ZADD', P .. 'active:' .. class, math.max(clock, finish), client)
  end
  call('SADD', P .. 'classes', class)
  wake(class)
end

local function enqueue(id)
  local class, client, score = read(id, 'class', 'client', 'score')
  call('ZADD', P .. 'queue:' .. class .. ':' .. client, score, id)
  attend(class, client)
end

local function retire(class, client) -- the client's queue may have become empty
  if call('EXISTS', P .. 'queue:' .. class .. ':' .. client) == 1 then return end
  local start = call('ZSCORE', P .. 'active:' .. class, client)
  if not start then return end
  call('ZREM', P .. 'active:' .. class, client)
  call('ZADD', P .. 'finish:' .. class, start, client)
end

local function unqueue(id, class, client)
  if call('ZREM', P .. 'queue:' .. class .. ':' .. client, id) == 1 then retire(class, client) end
end

local function unlease(id, worker)
  call('ZREM', P .. 'leases', id)
  if worker then call('SREM', P .. 'held:' .. worker, id) end
end

-- Ends and hand-backs ----------------------------------------------------------------------------

local function announce(batch, id)
  news[batch] = news[batch] or {}
  table.insert(news[batch], id)
end

local finish

-- Followers share a verdict, and the end of a task that kills workers; else they queue again.
local function settle_followers(id, to, reason, outcome, result)
  local shared = to == 'done' and outcome ~= 'infrastructure'
  local pointer = not shared and P .. 'content:' .. get(id, 'content')
  if pointer and call('GET', pointer) == id then call('DEL', pointer) end
  local followers = call('LRANGE', P .. 'followers:' .. id, 0, -1)
  for _, follower in ipairs(followers) do
    if get(follower, 'state') == 'queued' and get(follower, 'leader') == id then
      call('HDEL', P .. 'task:' .. follower, 'leader')
      if shared or reason == 'retries' then
        count('shared')
        finish(follower, to, reason, outcome, result)
      else
        enqueue(follower)
      end
    end
  end
  if #followers > 0 then call('DEL', P .. 'followers:' .. id) end
end

function finish(id, to, reason, outcome, result)
  local from, class, client, worker, batches, bytes =
    read(id, 'state', 'class', 'client', 'worker', 'batches', 'bytes')
  if from == 'queued' then unqueue(id, class, client) else unlease(id, worker) end
  move(id, from, to, 'finished', NOW, 'reason', reason, 'outcome', outcome, 'result', result,
    'bytes', bytes + #result)
  add('states', 'bytes', #result)
  count(to)
  add('open', client, -1)
  call('ZREM', P .. 'deadlines', id)
  call('ZADD', P .. 'expiry', NOW + TTL, 'task:' .. id)
  table.insert(ended, id)
  for batch in string.gmatch(batches, '%S+') do announce(batch, id) end
  settle_followers(id, to, reason, outcome, result)
end

local function back_to_queue(id)
  local from, worker = read(id, 'state', 'worker')
  unlease(id, worker)
  move(id, from, 'queued')
  count('requeued')
  enqueue(id)
end

local function infrastructure_failure(id, detail, outcome, result)
  put(id, 'detail', detail)
  local failures = call('HINCRBY', P .. 'task:' .. id, 'failures', 1)
  if failures > config('max_failures', 3) then
    finish(id, 'dead', 'retries', outcome, result)
  else
    back_to_queue(id)
  end
end

-- The state of the task, if this lease of it is the one that counts.
local function holds(id, token)
  local state, attempts = read(id, 'state', 'attempts')
  return LIVE[state or ''] and attempts == token and state
end

-- Why a task was not finished in time; SILENT ms without a word, and a worker counts as gone.
local SILENT = 120000
local function why_late(id)
  local class, submitted = get(id, 'class'), tonumber(get(id, 'submitted'))
  if LIVE[get(id, 'state')] then return 'a worker had it, and had not finished it' end
  if get(id, 'leader') then return 'an identical evaluation, which it waited for, had not ended' end
  local since, all = {}, call('HGETALL', P .. 'served')
  for i = 1, #all, 2 do
    if tonumber(all[i + 1]) >= submitted then since[#since + 1] = all[i] end
  end
  table.sort(since)
  local last = tonumber(call('HGET', P .. 'served', class) or 0)
  if last < submitted then
    local seen = #since > 0 and 'workers of ' .. table.concat(since, ', ') .. ' were' or 'no worker at all was'
    return 'no worker of class ' .. class .. ' has been connected since it was submitted; ' .. seen
      .. '. Start one (kernelgym worker), or submit to a class that is served (kernelgym workers)'
  end
  local away = NOW - last
  if away > SILENT then
    return 'the last worker of class ' .. class .. ' was heard of ' .. math.floor(away / 1000) .. ' s before'
  end
  return 'no worker of class ' .. class .. ' was free in time'
end

local function too_late(id)
  if get(id, 'failures') == '0' then put(id, 'detail', why_late(id)) end
  finish(id, 'dead', 'deadline', '', '')
end

-- Content ----------------------------------------------------------------------------------------

-- True when another task with the same content has answered for this one, or is being evaluated.
-- One that only waits is not followed at submission: its client's queue may be the longer one.
local function answered(id, claiming, force, content)
  if force == '1' then return false end
  local pointer = P .. 'content:' .. content
  local leader = call('GET', pointer)
  local state = leader and leader ~= id and get(leader, 'state')
  if state == 'done' then
    count('shared')
    finish(id, 'done', '', get(leader, 'outcome'), get(leader, 'result'))
    return true
  elseif state and (LIVE[state] or (claiming and state == 'queued')) then
    put(id, 'leader', leader)
    call('RPUSH', P .. 'followers:' .. leader, id)
    return true
  end
  if claiming then call('SET', pointer, id) end
  return false
end

local function remember(id, outcome)
  if outcome == 'infrastructure' then return end
  local pointer = P .. 'content:' .. get(id, 'content')
  local owner = call('GET', pointer)
  if owner == id then return end
  local state = owner and get(owner, 'state')
  if not state or state == 'done' then call('SET', pointer, id) end
end

