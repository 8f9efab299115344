// A real browser against a running stack, over http by names below localhost, which browsers take for this machine. From the environment:
// BROWSER_MODULES (directory whose node_modules holds package.json's), CHROMIUM, E2B_API_URL, E2B_API_KEY, E2B_DOMAIN, SHOTS (directory for pictures).
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, realpathSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'

const modules = process.env.BROWSER_MODULES
const require = createRequire(modules + '/')
const { chromium } = require('playwright-core')
const { Sandbox } = require('e2b')
const here = dirname(fileURLToPath(import.meta.url))
const { E2B_API_URL: apiUrl, E2B_API_KEY: apiKey, E2B_DOMAIN: domain } = process.env

// What bounds a hang and nothing else: the client's and the browser's own limits would tell how busy the machine is.
const LONG = 600_000

let browser, origin
// Modules of Node that the client names for other runtimes are empty in a page, as every bundler has it.
const none = { name: 'none', setup(b) {
  b.onResolve({ filter: /^(node:|(fs|os|path|crypto|stream|url|util|module)(\/|$))/ }, (a) => ({ path: a.path, namespace: 'none' }))
  b.onLoad({ filter: /.*/, namespace: 'none' }, () => ({ contents: 'module.exports = {}' }))
} }
const bundle = async () => (await require('esbuild').build({ entryPoints: [join(here, 'page.mjs')], bundle: true, format: 'iife', platform: 'browser', write: false,
  nodePaths: [join(modules, 'node_modules')], plugins: [none], define: { global: 'globalThis' }, logLevel: 'error' })).outputFiles[0].text

before(async () => {
  const script = await bundle()
  origin = createServer((q, r) => {
    const page = q.url !== '/page.js'
    r.setHeader('Content-Type', page ? 'text/html; charset=utf-8' : 'text/javascript')
    r.end(page ? '<!doctype html><title>page</title><h1>A page with the client</h1><script src="/page.js"></script>' : script)
  })
  await new Promise((done) => origin.listen(0, '127.0.0.1', done))
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, timeout: LONG,
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] })
})
after(async () => {
  await browser?.close()
  origin?.close()
})

const open = async () => {
  const page = await browser.newPage()
  page.setDefaultTimeout(LONG)
  const said = []
  page.on('console', (m) => said.push(m.text()))
  page.on('pageerror', (e) => said.push(String(e)))
  page.on('requestfailed', (r) => said.push(`${r.method()} ${r.url()}: ${r.failure()?.errorText}`))
  return { page, said, shot: (name) => page.screenshot({ path: join(process.env.SHOTS, name + '.png') }) }
}

const until = async (fn, text) => {
  const end = Date.now() + LONG
  for (;;) {
    try {
      const v = await fn()
      if (v) return v
    } catch {}
    if (Date.now() > end) assert.fail(`${text}: not within ${LONG} ms`)
    await new Promise((r) => setTimeout(r, 50))
  }
}

test('a page of another origin uses the published client: create, files, commands, kill', async () => {
  const { page, said, shot } = await open()
  await page.goto(`http://127.0.0.1:${origin.address().port}/`)
  await page.evaluate((o) => window.run(o), { apiUrl, apiKey, domain, sandboxUrl: apiUrl, requestTimeoutMs: LONG })
  await page.waitForSelector('#done')
  await shot('client')
  const text = await page.innerText('body')
  assert.match(text, /done: yes/, text + said.join('\n'))
  assert.match(text, /file: written by a page ☃/)
  assert.match(text, /command: \["line 1\\nline 2\\nline 3\\n","Linux\\n",0\]/)
  assert.match(text, /ended: true/)
  assert.match(text, /running: false/)
  await page.close()
})

// Programs of this machine that the template does not show are carried in.
const carry = async (s, name, archive) => {
  await s.files.write(`/tmp/${name}.tar`, new Blob([archive]), { requestTimeoutMs: 0 })
  await s.commands.run(`mkdir -p /home/user/app && tar -C /home/user/app -xf /tmp/${name}.tar && rm /tmp/${name}.tar`, { timeoutMs: LONG })
}

test('getHost() in the address bar: a Vite dev server in the sandbox, its module graph and its hot updates by WebSocket', async () => {
  const s = await Sandbox.create('base', { timeoutMs: 3_600_000, requestTimeoutMs: LONG })
  try {
    const tar = (...args) => execFileSync('tar', args, { maxBuffer: 1 << 30 })
    await carry(s, 'modules', tar('-C', modules, '--exclude=playwright-core', '--exclude=e2b', '-cf', '-', 'node_modules'))
    const node = realpathSync(process.execPath)
    await carry(s, 'node', tar('-C', dirname(node), '-cf', '-', 'node'))
    await s.files.write('/home/user/app/index.html', '<!doctype html><title>vite</title><h1 id="t">…</h1><script type="module" src="/main.js"></script>')
    await s.files.write('/home/user/app/text.js', 'export const text = "served by Vite"')
    await s.files.write('/home/user/app/main.js', `import { text } from './text.js'
const show = (t) => { document.getElementById('t').textContent = t }
show(text)
window.loads = (window.loads || 0) + 1
if (import.meta.hot) import.meta.hot.accept('./text.js', (m) => show(m.text))`)
    await s.files.write('/home/user/app/vite.config.mjs', 'export default { server: { allowedHosts: [".localhost"], watch: { usePolling: true, interval: 100 } } }')
    await s.commands.run('./node node_modules/vite/bin/vite.js --port 5173 --host 127.0.0.1 >/tmp/vite.log 2>&1', { background: true, cwd: '/home/user/app', timeoutMs: 0 })
    const url = `http://${s.getHost(5173)}/`
    const { page, said, shot } = await open()
    await until(async () => (await page.goto(url)).status() === 200, 'Vite answers')
    await page.waitForFunction(() => document.getElementById('t')?.textContent === 'served by Vite')
    await until(() => said.some((x) => x.includes('[vite] connected')), 'its WebSocket is open: ' + said.join('; '))
    await shot('vite')
    await page.evaluate(() => { window.mark = 'of this load' })
    // Vite may not watch a file yet when it has served it: then it learns of the next change.
    let n = 0
    await until(async () => {
      await s.files.write('/home/user/app/text.js', `export const text = "changed while it was open, ${++n}"`)
      return page.waitForFunction(() => document.getElementById('t')?.textContent.startsWith('changed while it was open'), undefined, { timeout: 5000 })
    }, 'the change is shown')
    assert.deepEqual(await page.evaluate(() => [window.loads, window.mark]), [1, 'of this load'], 'the page was not loaded again')
    await shot('vite-updated')
    await page.close()
  } finally {
    await s.kill()
  }
})

test('a WebSocket of a page: echo by host and by path; what is refused is a page for people', async () => {
  const s = await Sandbox.create('base', { timeoutMs: 3_600_000, requestTimeoutMs: LONG })
  try {
    await s.files.write('/tmp/guest_server.py', readFileSync(join(here, '../lib/guest_server.py'), 'utf8'))
    await s.commands.run('python3 /tmp/guest_server.py 3000', { background: true, timeoutMs: 0 })
    const { page, shot } = await open()
    await until(async () => (await page.goto(`http://${s.getHost(3000)}/head`)).status() === 200, 'it answers')
    for (const url of [`ws://${s.getHost(3000)}/ws`, `${apiUrl.replace('http', 'ws')}/_sandbox/${s.sandboxId}/3000/ws`]) {
      const got = await page.evaluate((u) => new Promise((done, fail) => {
        const ws = new WebSocket(u)
        ws.onopen = () => ws.send('hello from a page ☃')
        ws.onmessage = (m) => { done(m.data); ws.close() }
        ws.onerror = () => fail(new Error('WebSocket failed'))
      }), url)
      assert.equal(got, 'hello from a page ☃')
    }
    await page.goto(`http://${s.getHost(4567)}/`)
    assert.match(await page.innerText('body'), /no service running on port 4567/)
    await shot('closed-port')
    await s.kill()
    await page.goto(`http://${s.getHost(3000)}/`)
    assert.match(await page.innerText('body'), /Sandbox Not Found/)
    await shot('not-found')
    await page.close()
  } finally {
    await s.kill().catch(() => {})
  }
})
