// The published JavaScript client against a running stack. Everything it needs comes from the environment:
// E2B_SDK (directory whose node_modules holds the client), E2B_API_KEY, E2B_DOMAIN, and over plain http E2B_API_URL and E2B_SANDBOX_URL.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { LONG, create, e2b, killAll, now, until, version } from './client.mjs'

const run = promisify(execFile)
const { Sandbox, TimeoutError, NotFoundError, AuthenticationError } = e2b

const all = async (opts) => {
  const p = Sandbox.list(opts)
  const out = []
  while (p.hasNext) out.push(...(await p.nextItems()))
  return out
}

let sbx
before(async () => { sbx = await create({ timeoutMs: 3_600_000, envs: { GLOBAL: 'from create' } }) })
after(killAll)

// ---- lifecycle -------------------------------------------------------------------------------------------------------

test('create: template, timeout, metadata, envs; getInfo tells them', async () => {
  const s = await create('base', { timeoutMs: 1_200_000, metadata: { app: 'x', 'odd key &=': 'ü ☃' }, envs: { A: '1', B: 'two words' } })
  const info = await s.getInfo()
  assert.equal(info.sandboxId, s.sandboxId)
  assert.deepEqual(info.metadata, { app: 'x', 'odd key &=': 'ü ☃' })
  assert.equal(info.state, 'running')
  assert.ok(Math.abs(info.endAt - info.startedAt - 1_200_000) < 1000, `${info.startedAt} ${info.endAt}`)
  assert.equal((await Sandbox.getInfo(s.sandboxId)).templateId, info.templateId)
  assert.equal((await s.commands.run('echo "$A/$B"')).stdout, '1/two words\n')
  assert.equal(await s.kill(), true)
})

test('create: default lease is 300 s', async () => {
  const s = await create()
  const info = await s.getInfo()
  assert.ok(Math.abs(info.endAt - info.startedAt - 300_000) < 1000)
  await s.kill()
})

test('create: an unknown template and a wrong key are errors of their classes', async () => {
  await assert.rejects(Sandbox.create('no-such-template'), /404.*no-such-template/)
  await assert.rejects(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }), AuthenticationError)
  await assert.rejects(Sandbox.create({ timeoutMs: 25 * 3600_000 }), /400/)
})

test('list: pages, metadata and state filters', async () => {
  const mark = randomBytes(6).toString('hex')
  const ss = []
  for (let i = 0; i < 4; i++) ss.push(await create({ metadata: { mark, 'user id': `n ${i}&=%+/ü` } }))
  const ids = ss.map((s) => s.sandboxId).reverse()
  assert.deepEqual((await all({ query: { metadata: { mark } } })).map((s) => s.sandboxId), ids)
  assert.deepEqual((await all({ limit: 1, query: { metadata: { mark } } })).map((s) => s.sandboxId), ids)
  assert.deepEqual((await all({ limit: 3, query: { metadata: { mark } } })).map((s) => s.sandboxId), ids)
  assert.deepEqual((await all({ query: { metadata: { mark, 'user id': 'n 2&=%+/ü' } } })).map((s) => s.sandboxId), [ss[2].sandboxId])
  assert.deepEqual((await all({ query: { metadata: { mark }, state: ['running'] } })).length, 4)
  assert.deepEqual((await all({ query: { metadata: { mark }, state: ['paused'] } })).length, 0)
  assert.deepEqual((await all({ query: { metadata: { mark }, state: ['running', 'paused'] } })).length, 4)
  const first = Sandbox.list({ limit: 2, query: { metadata: { mark } } })
  assert.equal((await first.nextItems()).length, 2)
  assert.equal(first.hasNext, true)
  assert.equal((await first.nextItems()).length, 2)
  assert.equal(first.hasNext, false)
  for (const s of ss) await s.kill()
  assert.deepEqual(await all({ query: { metadata: { mark } } }), [])
})

test('setTimeout moves the end; a lease that ends is over for the client', async () => {
  const s = await create({ timeoutMs: 3_600_000 })
  const before = now()
  await s.setTimeout(600_000)
  const after = now()
  const { endAt } = await s.getInfo()
  assert.ok(endAt - 600_000 >= before - 2000 && endAt - 600_000 <= after + 2000, `${endAt}: 600 s after ${before} to ${after}`)
  await Sandbox.setTimeout(s.sandboxId, 1000)
  await until(async () => !(await s.isRunning()), 3000, 'the lease ends')
  await assert.rejects(s.getInfo(), NotFoundError)
  await assert.rejects(s.setTimeout(1000), NotFoundError)
  await assert.rejects(s.commands.run('true'), (e) => e instanceof TimeoutError || e instanceof NotFoundError)
  assert.equal(await s.kill(), false)
})

test('connect from a fresh process reaches the same sandbox', async () => {
  const s = await create({ timeoutMs: 1_200_000 })
  await s.files.write('/tmp/mark', 'here')
  const code = `const { createRequire } = require('node:module'); const { Sandbox } = createRequire(process.env.E2B_SDK + '/')('e2b');
    (async () => { const s = await Sandbox.connect(process.argv[1]); console.log(await s.files.read('/tmp/mark'), (await s.commands.run('echo run')).stdout) })()`
  const { stdout } = await run(process.execPath, ['-e', code, s.sandboxId])
  assert.equal(stdout, 'here run\n\n')
  const before = now()
  const again = await Sandbox.connect(s.sandboxId, { timeoutMs: 2_400_000 })
  assert.equal(again.sandboxId, s.sandboxId)
  const info = await again.getInfo()
  assert.ok(info.endAt - before > 2_390_000, 'connect extends')
  await Sandbox.connect(s.sandboxId, { timeoutMs: 1000 })
  assert.equal((await again.getInfo()).endAt.getTime(), info.endAt.getTime(), 'connect never shortens')
  assert.ok(await again.isRunning())
  await assert.rejects(Sandbox.connect('i' + '0'.repeat(20)), NotFoundError)
  await s.kill()
})

test('isRunning and kill: true, then false', async () => {
  const s = await create()
  assert.equal(await s.isRunning(), true)
  assert.equal(await s.kill(), true)
  assert.equal(await s.isRunning(), false)
  assert.equal(await s.kill(), false)
  assert.equal(await Sandbox.kill(s.sandboxId), false)
  assert.equal(await Sandbox.kill('i' + '0'.repeat(20)), false)
})

// ---- pause -----------------------------------------------------------------------------------------------------------

test('pause and connect from a fresh process: files and running processes go on', async () => {
  const s = await create({ timeoutMs: 1_200_000, envs: { COLOUR: 'blue' } })
  await s.files.write('/home/user/kept', 'here')
  const counter = await s.commands.run('i=0; while true; do i=$((i+1)); echo $i > /tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.05; done', { background: true, timeoutMs: 0 })
  await until(async () => await s.files.exists('/tmp/count'), 5000, 'it counts')
  assert.equal(await s.pause(), true)
  assert.equal(await s.pause(), false, 'paused already')
  assert.equal(await s.isRunning(), false)
  assert.equal((await Sandbox.getInfo(s.sandboxId)).state, 'paused')
  assert.ok((await all({ query: { state: ['paused'] } })).some((x) => x.sandboxId === s.sandboxId))
  await assert.rejects(s.commands.run('true'), (e) => e instanceof TimeoutError || e instanceof NotFoundError)
  await assert.rejects(s.setTimeout(60_000), NotFoundError)
  const code = `const { createRequire } = require('node:module'); const { Sandbox } = createRequire(process.env.E2B_SDK + '/')('e2b');
    (async () => { const s = await Sandbox.connect(process.argv[1], { timeoutMs: 600_000 });
      console.log(await s.files.read('/home/user/kept'), (await s.commands.run('echo $COLOUR')).stdout) })()`
  const { stdout } = await run(process.execPath, ['-e', code, s.sandboxId])
  assert.equal(stdout, 'here blue\n\n')
  const info = await s.getInfo()
  assert.equal(info.state, 'running')
  assert.ok(Math.abs(info.endAt - info.startedAt - 600_000) < 1000)
  const count = async () => Number(await s.files.read('/tmp/count'))
  const before = await count()
  await until(async () => (await count()) > before, 5000, 'it counts on')
  assert.ok((await s.commands.list()).some((p) => p.pid === counter.pid), 'the same process')
  await s.pause()
  assert.equal(await s.kill(), true)
  assert.equal(await s.kill(), false)
  await assert.rejects(Sandbox.connect(s.sandboxId), NotFoundError)
})

test('pause without memory: files stay, processes do not', async () => {
  const s = await create({ envs: { COLOUR: 'red' } })
  await s.files.write('/home/user/kept', 'here')
  await s.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
  assert.equal(await s.pause({ keepMemory: false }), true)
  const again = await Sandbox.connect(s.sandboxId)
  assert.equal(await again.files.read('/home/user/kept'), 'here')
  assert.equal((await again.commands.run('echo $COLOUR')).stdout, 'red\n')
  assert.deepEqual(await again.commands.list(), [])
  await again.kill()
})

test('lifecycle: the end of the lease pauses; traffic resumes where that is on', async () => {
  const off = await create({ timeoutMs: 1000, lifecycle: { onTimeout: 'pause' } })
  const on = await create({ timeoutMs: 1000, lifecycle: { onTimeout: 'pause', autoResume: true } })
  await until(async () => (await Sandbox.getInfo(off.sandboxId)).state === 'paused', 5000, 'paused')
  await until(async () => (await Sandbox.getInfo(on.sandboxId)).state === 'paused', 5000, 'paused')
  assert.equal(await off.isRunning(), false)
  assert.equal((await Sandbox.getInfo(off.sandboxId)).state, 'paused')
  const out = await Promise.all(Array.from({ length: 10 }, (_, i) => on.commands.run(`echo ${i}`)))
  assert.deepEqual(out.map((r) => r.stdout), Array.from({ length: 10 }, (_, i) => `${i}\n`))
  assert.equal((await on.getInfo()).state, 'running')
  await Sandbox.connect(off.sandboxId, { timeoutMs: 1000 })
  await until(async () => (await Sandbox.getInfo(off.sandboxId)).state === 'paused', 5000, 'paused again')
  await off.kill()
  await on.kill()
})

// ---- commands --------------------------------------------------------------------------------------------------------

test('a sandbox killed during a run: the run fails at once as ended', async () => {
  const s = await create()
  const started = s.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
  const h = await started
  const t0 = Date.now()
  const ended = assert.rejects(h.wait(), TimeoutError)
  await s.kill()
  await ended
  assert.ok(Date.now() - t0 < 100_000, 'long before the lease ends')
})

// ---- big files ------------------------------------------------------------------------------------------------------

test('files: 256 MiB both ways, streamed', async () => {
  const block = randomBytes(1 << 20)
  const total = 256
  const up = createHash('sha256')
  let n = 0
  await sbx.files.write('/home/user/huge', new ReadableStream({
    pull(c) {
      if (n++ === total) return c.close()
      block.writeUInt32LE(n, 0)
      up.update(block)
      c.enqueue(Uint8Array.from(block))
    },
  }), { requestTimeoutMs: 0, useOctetStream: true })
  assert.equal((await sbx.files.getInfo('/home/user/huge')).size, total << 20)
  const down = createHash('sha256')
  for await (const p of await sbx.files.read('/home/user/huge', { format: 'stream', requestTimeoutMs: 0 })) down.update(p)
  const want = up.digest('hex')
  assert.equal(down.digest('hex'), want)
  assert.equal((await sbx.commands.run('sha256sum < /home/user/huge', { timeoutMs: LONG })).stdout.slice(0, 64), want)
  await sbx.files.remove('/home/user/huge')
})

// ---- secure access ---------------------------------------------------------------------------------------------------

test('secure: without or with a wrong token every call is AuthenticationError', async () => {
  const s = await create({ secure: true })
  const plain = { sandboxId: s.sandboxId, envdVersion: '0.5.7', sandboxUrl: process.env.E2B_SANDBOX_URL, apiKey: process.env.E2B_API_KEY }
  for (const envdAccessToken of [undefined, '0'.repeat(64)]) {
    const x = new Sandbox({ ...plain, envdAccessToken })
    await assert.rejects(x.commands.run('true'), AuthenticationError)
    await assert.rejects(x.files.read('/etc/passwd'), AuthenticationError)
    await assert.rejects(x.files.write('/tmp/x', 'x'), AuthenticationError)
    await assert.rejects(x.files.list('/'), AuthenticationError)
    assert.equal(await x.isRunning(), true)
  }
  assert.equal((await s.commands.run('echo in')).stdout, 'in\n')
  await s.kill()
})

test('secure: signed download and upload URLs; expired and forged ones are refused', async () => {
  const s = await create({ secure: true })
  await s.files.write('/home/user/a b+☃.txt', 'signed')
  // The URL names the sandbox by host; with E2B_SANDBOX_URL it names none until the path does.
  const shared = process.env.E2B_SANDBOX_URL
  const headers = {}
  const here = (url) => { const u = new URL(url); return shared ? `${shared.replace(/\/$/, '')}/_sandbox/${s.sandboxId}/49983${u.pathname}${u.search}` : url }
  const url = here(await s.downloadUrl('/home/user/a b+☃.txt', { useSignature: true, useSignatureExpiration: 1000 }))
  assert.equal(await (await fetch(url, { headers })).text(), 'signed')
  const wrong = await fetch(url.replace(/signature=v1_...../, 'signature=v1_AAAAA'), { headers })
  assert.equal(wrong.status, 401)
  assert.deepEqual(await wrong.json(), { code: 401, message: 'invalid signature' })
  const old = await fetch(here(await s.downloadUrl('/home/user/a b+☃.txt', { useSignature: true, useSignatureExpiration: -120 })), { headers })
  assert.deepEqual([old.status, await old.json()], [401, { code: 401, message: 'signature is already expired' }])
  const none = await fetch(here(await s.downloadUrl('/home/user/a b+☃.txt')).split('&signature')[0], { headers: { ...headers } })
  assert.ok([200, 401].includes(none.status))
  const form = new FormData()
  form.append('file', new Blob(['uploaded']), 'up.txt')
  const up = await fetch(here(await s.uploadUrl('/home/user/up.txt', { useSignature: true })), { method: 'POST', headers, body: form })
  assert.equal(up.status, 200)
  assert.equal(await s.files.read('/home/user/up.txt'), 'uploaded')
  await s.kill()
})

test("another team's sandbox is not found", async (t) => {
  if (!process.env.OTHER_API_KEY) return t.skip('OTHER_API_KEY is not set')
  const opts = { apiKey: process.env.OTHER_API_KEY }
  await assert.rejects(Sandbox.getInfo(sbx.sandboxId, opts), NotFoundError)
  await assert.rejects(Sandbox.connect(sbx.sandboxId, opts), NotFoundError)
  await assert.rejects(Sandbox.setTimeout(sbx.sandboxId, 1000, opts), NotFoundError)
  assert.equal(await Sandbox.kill(sbx.sandboxId, opts), false)
  assert.equal(await sbx.isRunning(), true)
})

test('pool without machines: the lifecycle works, guest calls fail as not running', async () => {
  const s = await create('pool-rows', { timeoutMs: 600_000, metadata: { pool: 'none' } })
  assert.deepEqual((await s.getInfo()).metadata, { pool: 'none' })
  await s.setTimeout(1_000_000)
  assert.equal(await s.isRunning(), false)
  await assert.rejects(s.commands.run('true'), /not running|was not found|timed out/i)
  await assert.rejects(s.files.read('/home/user/x'))
  assert.equal((await Sandbox.connect(s.sandboxId)).sandboxId, s.sandboxId)
  assert.equal(await s.kill(), true)
})

test('light pool: files work, a shell is unimplemented, and files still work', async () => {
  const s = await create('pool-js', { timeoutMs: 600_000 })
  assert.equal(await s.isRunning(), true)
  await s.files.write('/home/user/a.txt', 'text')
  await assert.rejects(s.commands.run('true'), /unimplemented/)
  await assert.rejects(s.commands.list(), /implemented/)
  assert.equal(await s.files.read('/home/user/a.txt'), 'text')
  assert.ok((await s.files.list('/home/user')).some((x) => x.name === 'a.txt'))
  await s.files.remove('/home/user/a.txt')
  assert.equal(await s.files.exists('/home/user/a.txt'), false)
  assert.equal(await s.kill(), true)
})

test('ten sandboxes at once', async () => {
  const ss = await Promise.all(Array.from({ length: 10 }, (_, i) => create({ envs: { N: String(i) } })))
  const outs = await Promise.all(ss.map((s) => s.commands.run('echo $N $E2B_SANDBOX_ID')))
  assert.deepEqual(outs.map((o) => o.stdout), ss.map((s, i) => `${i} ${s.sandboxId}\n`))
  assert.deepEqual(await Promise.all(ss.map((s) => s.kill())), Array(10).fill(true))
})

// ---- network (INTERNET names two addresses of the lab's) ---------------------------------------------------------------

const [one, two] = (process.env.INTERNET ?? '').split(' ')
// What is closed is refused at once; the limit is for a connection that hangs.
const reached = async (s) => {
  const out = []
  for (const a of [one, two]) {
    const command = `timeout 100 bash -c 'exec 3<>/dev/tcp/${a}/80 && head -n1 <&3' >/dev/null 2>&1; echo $?`
    const status = (await s.commands.run(command, { timeoutMs: LONG })).stdout.trim()
    assert.notEqual(status, '124', `${a} neither answers nor is refused`)
    if (status === '0') out.push(a)
  }
  return out
}
// A port of the sandbox, as somebody outside asks for it.
const ask = (s, port, headers) => fetch((process.env.E2B_SANDBOX_URL ?? `https://${s.getHost(port)}`) + '/', {
  headers: { 'E2b-Sandbox-Id': s.sandboxId, 'E2b-Sandbox-Port': String(port), ...headers } })

test('network: internet by default, none, allowed and denied addresses; updateNetwork replaces', async () => {
  assert.deepEqual(await reached(sbx), [one, two])
  let s = await create({ allowInternetAccess: false })
  assert.deepEqual(await reached(s), [])
  await s.kill()
  s = await create({ network: { denyOut: [e2b.ALL_TRAFFIC], allowOut: [one] } })
  assert.deepEqual(await reached(s), [one])
  await s.updateNetwork({ denyOut: [one] })
  assert.deepEqual(await reached(s), [two])
  await s.pause()
  await s.connect()
  assert.deepEqual(await reached(s), [two])
  await s.updateNetwork({})
  assert.deepEqual(await reached(s), [one, two])
  await assert.rejects(s.updateNetwork({ denyOut: ['example.com'] }), /400.*denyOut/)
  await s.kill()
  await assert.rejects(s.updateNetwork({}), NotFoundError)
})

test('network: private traffic takes the token; maskRequestHost is what the server sees', async () => {
  const s = await create({ secure: true, network: { allowPublicTraffic: false, maskRequestHost: 'app.example:${PORT}' } })
  assert.match(s.trafficAccessToken, /^[0-9a-f]{64}$/)
  assert.equal(sbx.trafficAccessToken ?? null, null)
  await s.files.write('/tmp/s.py', `import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(self.headers['Host'].encode())
http.server.HTTPServer(('127.0.0.1', 3000), H).serve_forever()`)
  await s.commands.run('python3 /tmp/s.py', { background: true })
  const token = { 'e2b-traffic-access-token': s.trafficAccessToken }
  await until(async () => (await ask(s, 3000, token)).status === 200, 20_000, 'the server answers')
  assert.equal(await (await ask(s, 3000, token)).text(), 'app.example:3000')
  const refused = await ask(s, 3000, {})
  assert.equal(refused.status, 403)
  assert.match((await refused.json()).message, /traffic access token.*is missing/)
  assert.equal((await ask(s, 3000, { 'e2b-traffic-access-token': 'x' })).status, 403)
  assert.equal((await Sandbox.connect(s.sandboxId)).trafficAccessToken, s.trafficAccessToken)
  await s.kill()
})

test('getMetrics: samples of a running sandbox', async () => {
  const samples = await until(async () => { const m = await sbx.getMetrics(); return m.length && m }, 15_000, 'a sample')
  const m = samples.at(-1)
  const info = await sbx.getInfo()
  assert.ok(Math.abs(m.timestamp - now()) < 60_000, String(m.timestamp))
  assert.deepEqual([m.cpuCount, m.memTotal], [info.cpuCount, info.memoryMB * 2 ** 20])
  assert.ok(m.cpuUsedPct >= 0 && m.cpuUsedPct <= 100 && m.memUsed > 0 && m.diskUsed > 0 && m.diskUsed <= m.diskTotal, JSON.stringify(m))
  assert.deepEqual(await sbx.getMetrics({ end: new Date(now() - 86_400_000) }), [])
})

test('snapshots: create with and without a name, list, start from, delete', async () => {
  const mark = randomBytes(5).toString('hex')
  const s = await create()
  await s.files.write('/home/user/kept', mark)
  const a = await s.createSnapshot()
  const b = await s.createSnapshot({ name: `js-${mark}:v1` })
  assert.match(a.snapshotId, /^[a-z0-9]{20}:default$/)
  assert.match(b.snapshotId, new RegExp(`/js-${mark}:v1$`))
  await s.files.write('/home/user/later', 'x')
  assert.equal((await s.commands.run('cat /home/user/later')).stdout, 'x')
  const ids = async (p) => { const out = []; while (p.hasNext) out.push(...(await p.nextItems()).map((x) => x.snapshotId)); return out }
  assert.deepEqual(await ids(s.listSnapshots()), [b.snapshotId, a.snapshotId])
  assert.deepEqual(await ids(Sandbox.listSnapshots({ sandboxId: s.sandboxId, limit: 1 })), [b.snapshotId, a.snapshotId])
  for (const x of [a, b]) {
    const t = await create(x.snapshotId, { envs: { A: '1' } })
    assert.notEqual(t.sandboxId, s.sandboxId)
    assert.equal(await t.files.read('/home/user/kept'), mark)
    assert.equal(await t.files.exists('/home/user/later'), false)
    assert.equal((await t.commands.run('echo $A')).stdout, '1\n')
    assert.equal((await t.getInfo()).templateId, (await s.getInfo()).templateId)
    await t.kill()
  }
  for (const x of [a, b]) assert.equal(await Sandbox.deleteSnapshot(x.snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(a.snapshotId), false)
  await assert.rejects(Sandbox.create(b.snapshotId), /404/)
  await s.pause()
  await assert.rejects(s.createSnapshot(), NotFoundError)
  await s.kill()
})

test('Template.exists', async () => {
  assert.equal(await e2b.Template.exists('base'), true)
  assert.equal(await e2b.Template.exists('no-such-template'), false)
})

test('families that are not served are errors in words', async () => {
  const s = await create()
  await assert.rejects(s.fork(), /option fork cannot be had in pool local/)
  for (const call of [() => e2b.Volume.list(), () => e2b.Volume.create('v'), () => e2b.Secret.create({ name: 'n', value: 'v' })]) {
    await assert.rejects(async () => await call(), (e) => e instanceof Error && /is not served/.test(e.message), call.toString())
  }
  assert.equal(await s.isRunning(), true)
  await s.kill()
})

test(`the client is the pinned one: ${version}`, () => {
  if (process.env.E2B_SDK_VERSION) assert.equal(version, process.env.E2B_SDK_VERSION)
})
