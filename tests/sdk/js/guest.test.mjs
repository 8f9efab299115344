// The agent as the published JavaScript client sees it: commands, terminals, files, watches, git. Runs against a stack, and with
// E2B_DEBUG=true against an agent alone on localhost:49983, with no API at all.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { LONG, create, debug, e2b, killAll, until } from './client.mjs'

const { CommandExitError, TimeoutError, NotFoundError } = e2b

let sbx
before(async () => { sbx = await create({ timeoutMs: 3_600_000, envs: { GLOBAL: 'from create' } }) })
after(killAll)

test('run: stdout, stderr, exit code, callbacks in order', async () => {
  const out = [], err = []
  const r = await sbx.commands.run('echo out; echo err >&2; echo out2', { onStdout: (d) => out.push(d), onStderr: (d) => err.push(d) })
  assert.deepEqual([r.stdout, r.stderr, r.exitCode], ['out\nout2\n', 'err\n', 0])
  assert.deepEqual([out.join(''), err.join('')], ['out\nout2\n', 'err\n'])
  await assert.rejects(sbx.commands.run('echo no >&2; exit 7'), (e) => e instanceof CommandExitError && e.exitCode === 7 && e.stderr === 'no\n' && e.message !== '')
  await assert.rejects(sbx.commands.run('kill -9 $$'), CommandExitError)
  await assert.rejects(sbx.commands.run('no-such-program-at-all'), (e) => e.exitCode === 127)
})

test('run: cwd, envs, user', async () => {
  assert.equal((await sbx.commands.run('pwd')).stdout, '/home/user\n')
  assert.equal((await sbx.commands.run('pwd', { cwd: '/tmp' })).stdout, '/tmp\n')
  await sbx.files.makeDir('sub dir')
  assert.equal((await sbx.commands.run('pwd', { cwd: 'sub dir' })).stdout, '/home/user/sub dir\n')
  await assert.rejects(sbx.commands.run('pwd', { cwd: '/no/such/dir' }), /no\/such\/dir/)
  const global = debug ? '' : 'from create'
  assert.equal((await sbx.commands.run('echo "$GLOBAL $X"', { envs: { X: 'mine' } })).stdout, global + ' mine\n')
  assert.equal((await sbx.commands.run('echo "$GLOBAL"', { envs: { GLOBAL: 'over' } })).stdout, 'over\n')
  assert.equal((await sbx.commands.run('echo "$GLOBAL$X"')).stdout, global + '\n')
  assert.equal((await sbx.commands.run('whoami')).stdout, 'user\n')
  assert.equal((await sbx.commands.run('whoami; echo $HOME', { user: 'root' })).stdout, 'root\n/root\n')
  await assert.rejects(sbx.commands.run('true', { user: 'nosuchuser' }), /nosuchuser|invalid username/)
  assert.equal((await sbx.commands.run('echo $E2B_SANDBOX $E2B_SANDBOX_ID')).stdout, debug ? 'true\n' : `true ${sbx.sandboxId}\n`)
})

test('run: a timeout ends the command, in the sandbox too', async () => {
  // A busy machine may need longer than that to start it: then it is given more time, until it has told its number.
  let pid = ''
  for (let timeoutMs = 700; pid === ''; timeoutMs *= 2) {
    assert.ok(timeoutMs < 120_000, 'it starts')
    await sbx.files.write('/tmp/slow', '')
    await assert.rejects(sbx.commands.run('echo $$ > /tmp/slow; exec sleep 300', { timeoutMs }), TimeoutError)
    pid = (await sbx.files.read('/tmp/slow')).trim()
  }
  await until(async () => (await sbx.commands.run(`kill -0 ${pid} 2>/dev/null && echo on || echo off`)).stdout === 'off\n', 5000, 'the process ends')
})

test('run: big output, all of it, in order', async () => {
  const r = await sbx.commands.run('seq 1 400000')
  assert.equal(r.stdout.length, 2688895)
  const want = createHash('sha256')
  for (let i = 1; i <= 400000; i++) want.update(i + '\n')
  assert.equal(createHash('sha256').update(r.stdout).digest('hex'), want.digest('hex'))
})

test('run: split and broken UTF-8', async () => {
  const r = await sbx.commands.run("printf '\\xe2'; sleep 0.1; printf '\\x98'; sleep 0.1; printf '\\x83'; printf '\\xff\\xfe!'; printf '\\xc3' >&2")
  assert.equal(r.stdout, '☃\ufffd\ufffd!')
  assert.equal(r.stderr, '\ufffd')
  assert.equal((await sbx.commands.run('echo "ü ☃ 🙂"')).stdout, 'ü ☃ 🙂\n')
})

test('background: wait, list, connect, kill', async () => {
  const h = await sbx.commands.run('echo started; echo > /tmp/has-started; read x; echo got $x', { background: true, stdin: true, timeoutMs: 0 })
  await until(() => sbx.files.exists('/tmp/has-started'), 10_000, 'it started')
  await until(() => h.stdout === 'started\n', 10_000, 'its first output')         // else who connects now may be told it, too
  assert.ok(h.pid > 0)
  const list = await sbx.commands.list()
  const p = list.find((x) => x.pid === h.pid)
  assert.ok(p, 'listed')
  assert.deepEqual([p.cmd, p.args.slice(0, 2)], ['/bin/bash', ['-l', '-c']])
  const seen = []
  const c = await sbx.commands.connect(h.pid, { onStdout: (d) => seen.push(d), timeoutMs: 0 })
  await sbx.commands.sendStdin(h.pid, 'word\n')
  assert.equal((await h.wait()).stdout, 'started\ngot word\n')
  assert.equal((await c.wait()).exitCode, 0)
  assert.equal(seen.join(''), 'got word\n')
  const k = await sbx.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
  assert.equal(await k.kill(), true)
  await assert.rejects(k.wait(), (e) => e instanceof CommandExitError && e.exitCode !== 0)
  assert.equal(await sbx.commands.kill(k.pid), false)
  assert.equal((await sbx.commands.run(`kill -0 ${k.pid} 2>/dev/null && echo on || echo off`)).stdout, 'off\n')
  assert.equal(await sbx.commands.kill(999999), false)
  await assert.rejects(sbx.commands.connect(999999), NotFoundError)
})

test('background: a disconnect leaves the command running', async () => {
  const h = await sbx.commands.run('for i in 1 2 3; do sleep 0.1; done; echo x > /tmp/went-on; sleep 1000', { background: true, timeoutMs: 0 })
  await h.disconnect()
  await until(() => sbx.files.exists('/tmp/went-on'), 5000, 'it went on')
  assert.equal(await sbx.commands.kill(h.pid), true)
})

test('stdin: text, bytes, many lines, empty, close is end of file', async () => {
  const h = await sbx.commands.run('cat', { background: true, stdin: true, timeoutMs: 0 })
  await sbx.commands.sendStdin(h.pid, '')
  await sbx.commands.sendStdin(h.pid, 'one\ntwo\n')
  await h.sendStdin?.('three ☃\n')
  await sbx.commands.sendStdin(h.pid, 'x'.repeat(200_000) + '\n')
  await sbx.commands.closeStdin(h.pid)
  const r = await h.wait()
  assert.equal(r.exitCode, 0)
  assert.equal(r.stdout, 'one\ntwo\n' + (h.sendStdin ? 'three ☃\n' : '') + 'x'.repeat(200_000) + '\n')
  await assert.rejects(sbx.commands.sendStdin(h.pid, 'late'), NotFoundError)
  const n = await sbx.commands.run('read x; echo "status $?"')
  assert.equal(n.stdout, 'status 1\n', 'without stdin a read meets the end of file')
})

test('pty: input, output, size, resize, exit code, kill', async () => {
  let seen = ''
  const decoder = new TextDecoder()
  const pty = await sbx.pty.create({ cols: 90, rows: 30, onData: (d) => { seen += decoder.decode(d, { stream: true }) }, envs: { MINE: 'yes' }, cwd: '/tmp', timeoutMs: 0 })
  const type = (s) => sbx.pty.sendInput(pty.pid, new TextEncoder().encode(s))
  await type('stty size; echo "<$MINE $TERM $(pwd)>"\n')
  await until(() => seen.includes('30 90') && seen.includes('<yes xterm-256color /tmp>'), 10_000, `first output, have ${JSON.stringify(seen)}`)
  await sbx.pty.resize(pty.pid, { cols: 120, rows: 40 })
  seen = ''
  await type('stty size\n')
  await until(() => seen.includes('40 120'), 10_000, 'the new size')
  await type('exit 0\n')
  assert.equal((await pty.wait()).exitCode, 0)
  const other = await sbx.pty.create({ cols: 80, rows: 24, onData: () => {}, timeoutMs: 0 })
  assert.equal(await sbx.pty.kill(other.pid), true)
  await assert.rejects(other.wait())
  assert.equal(await sbx.pty.kill(other.pid), false)
})

// ---- files -----------------------------------------------------------------------------------------------------------

test('files: write and read text, bytes, blob, stream', async () => {
  const info = await sbx.files.write('text.txt', 'ü ☃\n')
  assert.equal(info.path, '/home/user/text.txt')
  assert.equal(await sbx.files.read('text.txt'), 'ü ☃\n')
  const bytes = randomBytes(300_000)
  await sbx.files.write('/tmp/a/b/c/bytes', bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))
  assert.deepEqual(Buffer.from(await sbx.files.read('/tmp/a/b/c/bytes', { format: 'bytes' })), bytes)
  assert.deepEqual(Buffer.from(await (await sbx.files.read('/tmp/a/b/c/bytes', { format: 'blob' })).arrayBuffer()), bytes)
  const parts = []
  for await (const p of await sbx.files.read('/tmp/a/b/c/bytes', { format: 'stream' })) parts.push(p)
  assert.deepEqual(Buffer.concat(parts), bytes)
  await sbx.files.write('blob', new Blob([bytes]))
  assert.deepEqual(Buffer.from(await sbx.files.read('blob', { format: 'bytes' })), bytes)
  await sbx.files.write('streamed', new ReadableStream({ start(c) { c.enqueue(bytes.subarray(0, 1000)); c.enqueue(bytes.subarray(1000)); c.close() } }))
  assert.deepEqual(Buffer.from(await sbx.files.read('streamed', { format: 'bytes' })), bytes)
  await sbx.files.write('empty', '')
  assert.equal(await sbx.files.read('empty'), '')
  assert.equal((await sbx.files.read('empty', { format: 'bytes' })).length, 0)
  await sbx.files.write('text.txt', 'short')
  assert.equal(await sbx.files.read('text.txt'), 'short', 'an overwrite truncates')
  await assert.rejects(sbx.files.read('no such file'), NotFoundError)
  await assert.rejects(sbx.files.read('/tmp'), /directory/)
})

test('files: odd names, several in one call, either upload form', async () => {
  const names = ['sp ace.txt', 'ü☃.txt', 'q"uote.txt', 'a+b&c=d#e?.txt', "apo'strophe", '%41.txt', '-dash']
  for (const n of names) {
    await sbx.files.write(`odd/${n}`, n)
    assert.equal(await sbx.files.read(`odd/${n}`), n)
  }
  for (const opts of [{}, { useOctetStream: true }, { useOctetStream: false }, { gzip: true }]) {
    const infos = await sbx.files.write([{ path: 'many/one', data: 'one' }, { path: '/tmp/many/two', data: new Blob(['two']) }, { path: 'many/three ☃', data: 'three' }], opts)
    assert.deepEqual(infos.map((i) => i.path).sort(), ['/home/user/many/one', '/home/user/many/three ☃', '/tmp/many/two'])
    assert.equal(await sbx.files.read('many/one'), 'one')
    assert.equal(await sbx.files.read('/tmp/many/two'), 'two')
    assert.equal(await sbx.files.read('many/three ☃'), 'three')
    await sbx.files.write('single', 'single ' + JSON.stringify(opts), opts)
    assert.equal(await sbx.files.read('single'), 'single ' + JSON.stringify(opts))
  }
})

test('files: as another user; owners of files and new directories', async () => {
  await sbx.files.write('/home/user/new/dir/f', 'x')
  assert.equal((await sbx.commands.run('stat -c %U:%G:%a new new/dir new/dir/f')).stdout, 'user:user:755\nuser:user:755\nuser:user:644\n')
  await sbx.files.write('/root/f', 'root only', { user: 'root' })
  assert.equal((await sbx.commands.run('stat -c %U /root/f', { user: 'root' })).stdout, 'root\n')
  await sbx.files.write('f', 'in root home', { user: 'root' })
  assert.equal(await sbx.files.read('/root/f', { user: 'root' }), 'in root home')
})

test('files: list with depth, types, order; getInfo; links', async () => {
  await sbx.commands.run('mkdir -p tree/d1/d2/d3 && cd tree && echo hi > b.txt && echo a > d1/a && echo z > d1/d2/z && ln -s b.txt link && ln -s nowhere broken')
  const names = async (depth) => (await sbx.files.list('tree', depth ? { depth } : undefined)).map((e) => e.path.replace('/home/user/tree/', '') + (e.type === 'dir' ? '/' : ''))
  assert.deepEqual((await names()).filter((n) => n !== 'broken'), ['b.txt', 'd1/', 'link'])
  assert.deepEqual((await names(2)).filter((n) => n !== 'broken'), ['b.txt', 'd1/', 'd1/a', 'd1/d2/', 'link'])
  assert.deepEqual((await names(4)).filter((n) => n !== 'broken'), ['b.txt', 'd1/', 'd1/a', 'd1/d2/', 'd1/d2/d3/', 'd1/d2/z', 'link'])
  const i = await sbx.files.getInfo('tree/b.txt')
  assert.deepEqual([i.name, i.path, i.type, i.size, i.mode, i.permissions, i.owner, i.group],
    ['b.txt', '/home/user/tree/b.txt', 'file', 3, 0o644, '-rw-r--r--', 'user', 'user'])
  assert.ok(Math.abs(i.modifiedTime - Date.now()) < 60_000)
  const l = await sbx.files.getInfo('tree/link')
  assert.deepEqual([l.type, l.symlinkTarget], ['file', '/home/user/tree/b.txt'])
  assert.equal((await sbx.files.getInfo('tree/d1')).type, 'dir')
  await assert.rejects(sbx.files.getInfo('tree/none'), NotFoundError)
  await assert.rejects(sbx.files.list('tree/none'), NotFoundError)
  await assert.rejects(sbx.files.list('tree/b.txt'), /not a directory/i)
})

test('files: exists, makeDir, rename, remove', async () => {
  assert.equal(await sbx.files.exists('made'), false)
  assert.equal(await sbx.files.makeDir('made/deep'), true)
  assert.equal(await sbx.files.makeDir('made/deep'), false)
  assert.equal(await sbx.files.exists('made/deep'), true)
  await sbx.files.write('made/f', 'content')
  const e = await sbx.files.rename('made/f', 'made/g')
  assert.deepEqual([e.name, e.path, e.type], ['g', '/home/user/made/g', 'file'])
  assert.equal(await sbx.files.read('made/g'), 'content')
  assert.equal(await sbx.files.exists('made/f'), false)
  await assert.rejects(sbx.files.rename('made/none', 'made/h'), NotFoundError)
  await sbx.files.remove('made')
  assert.equal(await sbx.files.exists('made'), false)
  await sbx.files.remove('made')
})

test('files: metadata is replaced by each upload and told by list and getInfo', async (t) => {
  const info = await sbx.files.write('tagged', 'x', { metadata: { purpose: 'test', 'Two-Words': 'a b' } })
  if (info.metadata === undefined) return t.skip('this client has no metadata')
  const want = { purpose: 'test', 'two-words': 'a b' }
  assert.deepEqual(info.metadata, want)
  assert.deepEqual((await sbx.files.getInfo('tagged')).metadata, want)
  assert.deepEqual((await sbx.files.list('.')).find((e) => e.name === 'tagged').metadata, want)
  await sbx.files.rename('tagged', 'tagged2')
  assert.deepEqual((await sbx.files.getInfo('tagged2')).metadata, want)
  await sbx.files.write('tagged2', 'y', { metadata: { other: '1' } })
  assert.deepEqual((await sbx.files.getInfo('tagged2')).metadata, { other: '1' })
  await sbx.files.write('tagged2', 'z')
  assert.equal((await sbx.files.getInfo('tagged2')).metadata, undefined)
})

test('files: gzip on the way up and down', async () => {
  const text = 'compresses well '.repeat(20_000)
  await sbx.files.write('zipped', text, { gzip: true })
  assert.equal((await sbx.commands.run('wc -c < zipped')).stdout, text.length + '\n')
  assert.equal(await sbx.files.read('zipped', { gzip: true }), text)
  assert.equal(Buffer.from(await sbx.files.read('zipped', { format: 'bytes', gzip: true })).toString(), text)
})

test('files: a stream that is given up leaves the agent well', async () => {
  await sbx.commands.run('truncate -s 100M sparse')
  for await (const p of await sbx.files.read('sparse', { format: 'stream' })) { assert.ok(p.length > 0); break }
  assert.equal((await sbx.commands.run('rm sparse; echo well')).stdout, 'well\n')
})

const watched = async (dir, opts) => {
  await sbx.files.makeDir(dir)
  const events = []
  const h = await sbx.files.watchDir(dir, (e) => { events.push(e) }, { timeoutMs: 0, ...opts })
  return { events, h, sees: (name, type) => until(() => events.find((e) => e.name === name && e.type === type), 5000, `${type} of ${name}`) }
}

test('files: watchDir: write, chmod, rename, remove', async () => {
  const w = await watched('watched')
  await sbx.files.write('watched/new', 'x')
  await w.sees('new', 'create')
  await w.sees('new', 'write')
  await sbx.commands.run('chmod 600 watched/new && mv watched/new watched/other && rm watched/other')
  await w.sees('new', 'chmod')
  await w.sees('new', 'rename')
  await w.sees('other', 'create')
  await w.sees('other', 'remove')
  const other = await watched('watched')
  await w.h.stop()
  const n = w.events.length
  await sbx.files.write('watched/after', 'x')
  await other.sees('after', 'create')
  assert.equal(w.events.length, n, 'no event after stop')
  await other.h.stop()
})

test('files: watchDir: recursive, new directories too; entries', async () => {
  await sbx.files.makeDir('deep/old')
  const w = await watched('deep/tree', { recursive: true })
  await sbx.files.write('deep/tree/a/b/file', 'x')
  await w.sees('a', 'create')
  await w.sees('a/b/file', 'write')
  await w.h.stop()
  const flat = await watched('deep/flat')
  await sbx.files.makeDir('deep/flat/sub')
  await flat.sees('sub', 'create')
  await sbx.files.write('deep/flat/sub/file', 'x')
  await sbx.files.write('deep/flat/last', 'x')
  await flat.sees('last', 'create')
  assert.ok(!flat.events.some((e) => e.name.startsWith('sub/')), 'not recursive')
  await flat.h.stop()
  const told = await watched('deep/told', { includeEntry: true })
  await sbx.files.write('deep/told/f', 'four')
  const e = await told.sees('f', 'create')
  if ('entry' in e) assert.deepEqual([e.entry.name, e.entry.path, e.entry.type], ['f', '/home/user/deep/told/f', 'file'])
  await told.h.stop()
})

test('files: watchDir: what cannot be watched is an error of its class', async () => {
  await assert.rejects(sbx.files.watchDir('no/such', () => {}), NotFoundError)
  await assert.rejects(sbx.files.watchDir('text.txt', () => {}), /not a directory/i)
})

test('pty: a second client connects; tput sees the size', async () => {
  let one = '', two = ''
  const pty = await sbx.pty.create({ cols: 77, rows: 22, onData: (d) => { one += Buffer.from(d).toString() }, timeoutMs: 0 })
  const other = await sbx.pty.connect(pty.pid, { onData: (d) => { two += Buffer.from(d).toString() }, timeoutMs: 0 })
  await sbx.pty.sendInput(pty.pid, new TextEncoder().encode('echo "is $(tput cols)"\n'))
  await until(() => one.includes('is 77') && two.includes('is 77'), 10_000, 'both see it')
  await pty.disconnect()
  await sbx.pty.sendInput(pty.pid, new TextEncoder().encode('exit 4\n'))
  await assert.rejects(other.wait(), (e) => e.exitCode === 4)
})

test('run: two hundred at once', async () => {
  const all = await Promise.all([...Array(200).keys()].map((i) => sbx.commands.run(`echo ${i}; sleep 0.2`, { timeoutMs: LONG, requestTimeoutMs: LONG })))
  assert.deepEqual(all.map((r) => r.stdout), [...Array(200).keys()].map((i) => i + '\n'))
})

test('image: the programs that clients take for granted, and sudo without a password', async () => {
  const r = await sbx.commands.run('for p in bash python3 curl git tput pgrep realpath ln touch sudo; do command -v $p >/dev/null || echo "no $p"; done')
  assert.equal(r.stdout, '')
  assert.equal((await sbx.commands.run('sudo -n id -u; echo $HOME; cd; pwd; id -gn; printf %s "$PATH" | tr : "\\n" | grep -c bin')).stdout.split('\n').slice(0, 4).join(), '0,/home/user,/home/user,user')
  assert.equal((await sbx.commands.run('echo "$LANG"; python3 -c "print(\'\u2603\')"')).stdout.split('\n')[1], '\u2603')
})

test('git: a repository, its state, a clone through a daemon on 127.0.0.1', async (t) => {
  const g = sbx.git
  if (g === undefined) return t.skip('this client has no git')
  const by = { authorName: 'Bot', authorEmail: 'bot@example.com' }
  await g.init('/tmp/g/repo', { initialBranch: 'main' })
  await sbx.files.write('/tmp/g/repo/README.md', 'hello\n')
  assert.equal((await g.status('/tmp/g/repo')).isClean, false)
  await g.add('/tmp/g/repo')
  await g.commit('/tmp/g/repo', 'first', by)
  assert.equal((await g.status('/tmp/g/repo')).isClean, true)
  await g.createBranch('/tmp/g/repo', 'side')
  await g.checkoutBranch('/tmp/g/repo', 'main')
  const b = await g.branches('/tmp/g/repo')
  assert.deepEqual([b.currentBranch, b.branches.slice().sort()], ['main', ['main', 'side']])
  await g.setConfig('user.name', 'Global')
  assert.equal(await g.getConfig('user.name'), 'Global')
  await sbx.commands.run('git init -q --bare --initial-branch=main /tmp/g/remote.git')
  const daemon = await sbx.commands.run('exec git daemon --reuseaddr --base-path=/tmp/g --export-all --enable=receive-pack --listen=127.0.0.1 --port=9418', { background: true, timeoutMs: 0 })
  await until(() => sbx.commands.run('git ls-remote git://127.0.0.1/remote.git').then(() => true, () => false), 10_000, 'the daemon answers')
  await g.remoteAdd('/tmp/g/repo', 'origin', 'git://127.0.0.1/remote.git')
  await g.push('/tmp/g/repo', { remote: 'origin', branch: 'main' })
  await g.clone('git://127.0.0.1/remote.git', { path: '/tmp/g/clone' })
  assert.equal(await sbx.files.read('/tmp/g/clone/README.md'), 'hello\n')
  await daemon.kill()
})

test('ports: servers on 127.0.0.1 and on ::1 alone answer by their host', { skip: debug && 'there is no web server' }, async () => {
  await sbx.files.write('serve.py', `
import http.server, socket, sys
class S(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (sys.argv[1] + ' ' + self.headers['Host']).encode()
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
S((sys.argv[1], int(sys.argv[2])), H).serve_forever()
`)
  const direct = !process.env.E2B_SANDBOX_URL          // wildcard names, or one address and headers
  for (const [address, port] of [['127.0.0.1', 4001], ['::1', 4002]]) {
    const h = await sbx.commands.run(`exec python3 serve.py ${address} ${port}`, { background: true, timeoutMs: 0 })
    const get = async () => {
      const host = sbx.getHost(port)
      return direct ? fetch(`https://${host}/x`) : fetch(`${process.env.E2B_SANDBOX_URL}/x`, { headers: { 'E2b-Sandbox-Id': sbx.sandboxId, 'E2b-Sandbox-Port': String(port) } })
    }
    let r
    await until(async () => (r = await get()).status === 200 || (await r.text(), false), 10_000, 'the server answers')
    const [from, name] = (await r.text()).split(' ')
    assert.equal(from, address)
    if (direct) assert.equal(name, sbx.getHost(port), 'the Host that the browser sent')
    await h.kill()
    await assert.rejects(h.wait())                       // until it has ended its port is open
    assert.equal((r = await get()).status, 502)
    assert.deepEqual(await r.json(), { sandboxId: sbx.sandboxId, message: 'The sandbox is running but port is not open', port, code: 502 })
  }
})
