// The published JavaScript client of the code interpreter against a running stack. Everything it needs comes from the environment:
// E2B_SDK (directory whose node_modules holds the client), E2B_API_URL, E2B_SANDBOX_URL, E2B_API_KEY, E2B_DOMAIN; CHARTS, R, TYPESCRIPT: there is what
// these need; JAVA: the directory of its kernel.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { after, before, test } from 'node:test'

const require = createRequire(process.env.E2B_SDK + '/')
const { Sandbox, NotFoundError } = require('@e2b/code-interpreter')
const has = (what) => (process.env[what] === '1' ? {} : { skip: `no ${what.toLowerCase()} on this machine` })

// What bounds a hang and nothing else; the client's own minute would tell how busy the machine is.
const LONG = 600_000
const until = async (fn, text) => {
  for (const end = Date.now() + LONG; !(await fn()); await new Promise((r) => setTimeout(r, 20))) assert.ok(Date.now() < end, text)
}

let sbx
const cell = (code, opts) => sbx.runCode(code, { timeoutMs: LONG, ...opts })
before(async () => { sbx = await Sandbox.create({ timeoutMs: 7_200_000, requestTimeoutMs: LONG, envs: { GLOBAL: 'of create' } }) })
after(async () => { await sbx.kill().catch(() => {}) })

test('run code: result, state, count', async () => {
  await cell('x = 1')
  const r = await cell('x += 1; x')
  assert.equal(r.text, '2')
  assert.equal(r.executionCount, 2)
  assert.equal(r.results.length, 1)
  assert.deepEqual(r.results[0].extra, {})
  assert.equal(r.error, undefined)
})

test('output and errors come by their callbacks, split characters too', async () => {
  const out = [], err = [], results = [], errors = []
  const r = await cell('import sys\nprint("é☃😀" * 5000)\nprint("warn", file=sys.stderr)\ndisplay("shown")\n1/0', {
    onStdout: (m) => out.push(m.line), onStderr: (m) => err.push(m.line), onResult: (m) => results.push(m.text), onError: (e) => errors.push(e.name),
  })
  assert.equal(out.join(''), 'é☃😀'.repeat(5000) + '\n')
  assert.deepEqual([err.join(''), results, errors], ['warn\n', ['shown'], ['ZeroDivisionError']])
  assert.equal(r.logs.stdout.join(''), out.join(''))
  assert.match(r.error.traceback, /ZeroDivisionError/)
})

test('output streams while the cell runs', async () => {
  // The cell goes on when its first line has been seen.
  const code = `import os, time
print("first", flush=True)
end = time.time() + 100
while not os.path.exists("/tmp/first-seen") and time.time() < end:
    time.sleep(0.05)
print("seen" if os.path.exists("/tmp/first-seen") else "not seen")`
  let seen = ''
  const said = async (m) => {
    seen += m.line
    if (seen === 'first\n') await sbx.files.write('/tmp/first-seen', '')
  }
  await cell(code, { onStdout: said })
  assert.equal(seen, 'first\nseen\n')
})

test('variables: of the sandbox, of a cell, indented cells', async () => {
  const code = '    import os\n    print(os.environ.get("GLOBAL"), os.environ.get("MINE"))'
  assert.deepEqual((await cell(code, { envs: { MINE: 'it\'s "é"\n' } })).logs.stdout.join(''), 'of create it\'s "é"\n\n')
  assert.deepEqual((await cell(code, { envs: { GLOBAL: 'over' } })).logs.stdout.join(''), 'over None\n')
  assert.deepEqual((await cell(code)).logs.stdout.join(''), 'of create None\n')
})

test('contexts: create, list, restart, remove; the default ones are listed', async () => {
  const c = await sbx.createCodeContext({ language: 'python', cwd: '/tmp' })
  const all = await sbx.listCodeContexts()
  assert.deepEqual([all.at(-1).id, all.at(-1).language, all.at(-1).cwd], [c.id, 'python', '/tmp'])
  for (const language of ['python', 'javascript']) assert.ok(all.some((x) => x.language === language), language)
  assert.equal((await cell('import os; y = 1; os.getcwd()', { context: c })).text, '/tmp')
  await sbx.restartCodeContext(c.id)
  assert.equal((await cell('y', { context: c })).error.name, 'NameError')
  await sbx.removeCodeContext(c.id)
  assert.ok(!(await sbx.listCodeContexts()).some((x) => x.id === c.id))
  await assert.rejects(cell('1', { context: c }), NotFoundError)
  await assert.rejects(cell('1', { context: c, language: 'python' }))
})

test('working directories of all languages', async () => {
  const codes = { python: 'import os; print(os.getcwd())', js: 'console.log(process.cwd())', bash: 'pwd' }
  if (process.env.TYPESCRIPT === '1') codes.ts = 'const d: string = process.cwd(); console.log(d)'
  if (process.env.R === '1') codes.r = 'cat(getwd(), "\\n", sep="")'
  for (const [language, code] of Object.entries(codes)) {
    assert.equal((await cell(code, { language })).logs.stdout.join(''), '/home/user\n', language)
    const context = await sbx.createCodeContext({ language, cwd: '/tmp' })
    assert.equal((await cell(code, { context })).logs.stdout.join(''), '/tmp\n', `${language} in a context`)
    await sbx.removeCodeContext(context.id)
  }
})

test('JavaScript: import, await, result, error', async () => {
  assert.equal((await cell("import { readFileSync } from 'fs'\n console.log(typeof readFileSync)", { language: 'js' })).logs.stdout.join(''), 'function\n')
  assert.equal((await cell("await Promise.resolve('Hello World!')", { language: 'js' })).text, 'Hello World!')
  assert.equal((await cell('process.env.MINE + process.env.GLOBAL', { language: 'js', envs: { MINE: 'm ' } })).text, 'm of create')
  assert.equal((await cell("throw new RangeError('far')", { language: 'js' })).error.name, 'RangeError')
})

test('Java', { skip: process.env.JAVA ? false : 'no Java kernel on this machine' }, async () => {
  for (const name of readdirSync(process.env.JAVA)) {
    await sbx.files.write(`/root/.local/share/jupyter/kernels/java/${name}`, new Blob([readFileSync(`${process.env.JAVA}/${name}`)]), { user: 'root' })
  }
  await cell('int x = 41;', { language: 'java' })
  const r = await cell('System.out.println("hi"); x + 1', { language: 'java' })
  assert.deepEqual([r.text, r.logs.stdout.join(''), r.executionCount, r.error], ['42', 'hi\n', 2, undefined])
  const bad = await cell('int y = "no";', { language: 'java' })
  assert.equal(bad.error.name, 'CompilationException')
  const env = await cell('System.out.println(System.getProperty("MINE"))', { language: 'java', envs: { MINE: 'é' } })
  assert.equal(env.logs.stdout.join(''), 'é\n')
})

test('TypeScript', has('TYPESCRIPT'), async () => {
  const r = await cell("const message: string = 'Hello, World!'; console.log(message)", { language: 'ts' })
  assert.equal(r.logs.stdout.join(''), 'Hello, World!\n')
})

test('Bash, and ! in Python', async () => {
  assert.equal((await cell('A=1; echo "$GLOBAL $A"', { language: 'bash' })).logs.stdout.join(''), 'of create 1\n')
  assert.equal((await cell('!pwd')).logs.stdout.join('').trim(), '/home/user')
})

test('a language without a kernel is an error', async () => {
  await assert.rejects(cell('1', { language: 'no-such-kernel' }), /500/)
})

test('a data frame', has('CHARTS'), async () => {
  const r = await cell('import pandas as pd\npd.DataFrame({"a": [1, 2], "t": pd.to_datetime(["2024-01-01", "2024-01-02"])})')
  assert.deepEqual(r.results[0].data, { a: [1, 2], t: ['2024-01-01T00:00:00', '2024-01-02T00:00:00'] })
  assert.ok(r.results[0].html.includes('<table') && r.results[0].text.includes('2024-01-01'))
})

test('charts: line, bar, pie, scatter, box, several', has('CHARTS'), async () => {
  const chart = async (code) => (await cell('import matplotlib.pyplot as plt\n' + code + '\nplt.show()')).results.at(-1)
  const line = await chart('plt.plot([1, 2, 3], [4, 5, 6], label="L"); plt.title("T"); plt.xlabel("Time (s)")')
  assert.ok(line.png.startsWith('iVBOR'))
  assert.deepEqual([line.chart.type, line.chart.title, line.chart.x_label, line.chart.x_unit, line.chart.y_label, line.chart.x_scale, line.chart.elements],
    ['line', 'T', 'Time (s)', 's', null, 'linear', [{ label: 'L', points: [[1, 4], [2, 5], [3, 6]] }]])
  const bar = await chart('plt.bar(["a", "b"], [1, 2])')
  assert.deepEqual(bar.chart.elements, [{ label: 'a', group: 'Group 0', value: 1 }, { label: 'b', group: 'Group 0', value: 2 }])
  const pie = await chart('plt.pie([1, 3], labels=["x", "y"])')
  assert.deepEqual(pie.chart.elements, [{ label: 'x', angle: 90, radius: 1 }, { label: 'y', angle: 270, radius: 1 }])
  assert.equal((await chart('plt.scatter([1, 2], [3, 4]); plt.yscale("log")')).chart.y_scale, 'log')
  const box = await chart('plt.boxplot([[1, 2, 3, 4, 20], [2, 3, 5, 6, 9]], patch_artist=True)')
  assert.deepEqual([box.chart.type, box.chart.elements[0]], ['box_and_whisker',
    { label: '1', min: 1, first_quartile: 2, median: 3, third_quartile: 4, max: 4, outliers: [20] }])
  const both = await chart('f, (a, b) = plt.subplots(1, 2); a.plot([1, 2]); b.bar(["q", "w"], [3, 4]); f.suptitle("S")')
  assert.deepEqual([both.chart.type, both.chart.title, both.chart.elements.map((c) => c.type)], ['superchart', 'S', ['line', 'bar']])
})

test('an execution whose client gave up does not hold up the next one', async () => {
  await assert.rejects(cell('import time; time.sleep(300)', { timeoutMs: 1000 }))
  assert.equal((await cell('1 + 1', { timeoutMs: 200_000 })).text, '2')          // long before that one would have ended
})

test('a sandbox that is killed under an execution', async () => {
  const s = await Sandbox.create({ timeoutMs: 1_200_000, requestTimeoutMs: LONG })
  let over = false
  const running = s.runCode('open("/tmp/runs", "w").close(); import time; time.sleep(1000)', { timeoutMs: 0 })
  running.catch(() => {}).finally(() => { over = true })
  await until(() => s.files.exists('/tmp/runs'), 'it runs')
  assert.equal(over, false)
  await s.kill()
  await assert.rejects(running)
})

test('another client connects and finds the state', async () => {
  await cell('kept = 41')
  const again = await Sandbox.connect(sbx.sandboxId, { requestTimeoutMs: LONG })
  assert.equal((await again.runCode('kept + 1', { timeoutMs: LONG })).text, '42')
})
