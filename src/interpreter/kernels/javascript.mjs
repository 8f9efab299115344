// The JavaScript and TypeScript kernel: takes cells on descriptor 3, one JSON message a line (docs/interpreter.md), until that closes.
// Run with: node --expose-internals --experimental-import-meta-resolve --no-force-async-hooks-checks javascript.mjs
//
// A thread reads the descriptor. Where the main one is deaf, in an endless loop, that thread ends what it executes, wherever that is.
//
// Cells run in this process's own global scope, so that `instanceof` means what it says. What a cell declares becomes a property of the global
// object (a later cell sees it and may declare it again), imports become dynamic ones, and a cell that awaits runs in an async function.
import { createReadStream, writeSync } from 'node:fs'
import { Worker, isMainThread, parentPort } from 'node:worker_threads'
import { Session } from 'node:inspector'
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { Console } from 'node:console'
import { pathToFileURL } from 'node:url'
import path from 'node:path'
import util from 'node:util'
import vm from 'node:vm'

const LINE_FD = 3
const TEXT_MAX = 16384           // UTF-16 units of one message's text: 64 KiB of UTF-8 at most
const LINE_MAX = 16 << 20
const ESBUILD = 'esbuild'
const DEAF_MS = 100
const PROD_MS = 5
const require = createRequire(import.meta.url)
const end = () => process.kill(process.pid, 'SIGKILL')

// ---- the thread that reads

function reader() {
  const main = new Session()
  let rest = [], size = 0
  let last = null                // id of the last cell handed on
  let telling = null             // id of the cell to be interrupted, until the main thread has done it
  let deaf = null
  let prod = null                // while an execution is being ended
  const held = []                // what came meanwhile

  main.connectToMainThread()
  // It is told first: that is enough for a cell that awaits. What ends an execution may hit just what takes the message: it is told again.
  function tell() {
    clearTimeout(deaf)
    if (telling === null) return
    parentPort.postMessage({ type: 'interrupt_request', id: telling })
    deaf = setTimeout(cut, DEAF_MS)
  }
  // The main thread may have heard meanwhile, only late. Then what is ended is whatever it executes next, and that must not be the next cell.
  function cut() {
    prod = setInterval(() => parentPort.postMessage({ type: 'prod' }), PROD_MS)
    main.post('Runtime.terminateExecution', () => {
      clearInterval(prod)
      prod = null
      for (const message of held.splice(0)) take(message)
      tell()
    })
  }
  function interrupt() {
    const idle = telling === null
    telling = last
    if (idle) tell()
  }
  function take(message) {
    if (prod !== null) return held.push(message)
    if (message.type === 'interrupt_request') return interrupt()
    if (message.type !== 'execute_request') return
    last = message.id
    telling = null               // who sends a cell knows that the one before is over
    clearTimeout(deaf)
    parentPort.postMessage(message)
  }
  parentPort.on('message', (id) => {
    if (id !== telling) return
    clearTimeout(deaf)
    telling = null
  })
  createReadStream(null, { fd: LINE_FD }).on('data', (piece) => {
    for (let at; (at = piece.indexOf(10)) >= 0; piece = piece.subarray(at + 1)) {
      const message = JSON.parse(Buffer.concat([...rest, piece.subarray(0, at)]).toString())
      rest = []
      size = 0
      take(message)
    }
    rest.push(piece)
    size += piece.length
    if (size > LINE_MAX + 65536) end()
  }).on('close', end)
}

// ---- messages

let current = null               // the cell that runs, or ran last: what timers write later is told as its output
let count = 0
let unsent = Buffer.alloc(0)     // an interrupt can come in the middle of a message

function flush() {
  while (unsent.length > 0) {
    try {
      unsent = unsent.subarray(writeSync(LINE_FD, unsent))           // blocks: who reads slowly holds up the cell
    } catch (e) {
      if (e.code !== 'EAGAIN') end()
    }
  }
}

function send(type, content) {
  flush()
  unsent = Buffer.from(JSON.stringify({ type, parent: current?.id, content }) + '\n')
  flush()
}

function text(stream, chunk) {
  const s = typeof chunk === 'string' ? Buffer.from(chunk).toString() : Buffer.from(chunk).toString()
  for (let from = 0; from < s.length;) {
    let to = Math.min(from + TEXT_MAX, s.length)
    if (to < s.length && (s.charCodeAt(to - 1) & 0xfc00) === 0xd800) to--
    send('stream', { name: stream, text: s.slice(from, to) })
    from = to
  }
}

// No stream of Node's: an interrupt in the middle of one would leave it writing for ever.
function writer(stream) {
  return (chunk, encoding, done) => {
    text(stream, typeof chunk === 'string' && typeof encoding === 'string' ? Buffer.from(chunk, encoding) : chunk)
    const after = typeof encoding === 'function' ? encoding : done
    if (after) process.nextTick(after)
    return true
  }
}

// A MIME bundle is told as it is; anything else as its text.
function bundle(value) {
  const given = value !== null && typeof value === 'object' && typeof value.toMime === 'function' ? value.toMime() : null
  const data = {}
  for (const [mime, body] of Object.entries(given ?? {})) data[mime] = Buffer.isBuffer(body) ? body.toString('base64') : body
  if (!('text/plain' in data)) data['text/plain'] = util.inspect(value)
  return data
}

function display(value) {
  send('display_data', { data: bundle(value) })
}

const ours = /\bjavascript\.mjs\b|\(node:(vm|internal)|at node:(vm|internal)/
function fail(value) {
  let error = { ename: 'Error', evalue: util.inspect(value), traceback: ['Uncaught ' + util.inspect(value)] }
  if (util.types.isNativeError(value) || value instanceof Error) {
    const stack = String(value.stack ?? value).split('\n').filter((l) => !ours.test(l))
    error = { ename: String(value.name), evalue: String(value.message), traceback: [stack.join('\n')] }
  }
  send('error', error)
}

class Interrupt extends Error {
  constructor() {
    super('the cell was interrupted')
    this.name = 'KeyboardInterrupt'
    this.stack = 'KeyboardInterrupt: ' + this.message
  }
}

// ---- from a cell to a script

// Node carries the parser for its own prompt.
function parser() {
  for (const name of ['internal/deps/acorn/acorn/dist/acorn', 'acorn']) {
    try { return require(name) } catch { /* the next */ }
  }
  throw new Error('this node has no JavaScript parser: install node-acorn')
}
const acorn = parser()
const grammar = {
  ecmaVersion: 'latest', sourceType: 'script', allowHashBang: true, allowAwaitOutsideFunction: true, allowImportExportEverywhere: true,
}

function children(node) {
  return Object.values(node).flatMap((v) => Array.isArray(v) ? v : [v]).filter((v) => v !== null && typeof v === 'object' && typeof v.type === 'string')
}
const isFunction = (n) => /Function/.test(n.type)

// The names that a pattern binds.
function names(pattern, out = []) {
  switch (pattern?.type) {
    case 'Identifier': out.push(pattern.name); break
    case 'ObjectPattern': for (const p of pattern.properties) names(p.type === 'RestElement' ? p.argument : p.value, out); break
    case 'ArrayPattern': for (const p of pattern.elements) names(p, out); break
    case 'AssignmentPattern': names(pattern.left, out); break
    case 'RestElement': names(pattern.argument, out)
  }
  return out
}

function awaits(node) {
  if (node.type === 'AwaitExpression' || node.type === 'ImportDeclaration' || (node.type === 'ForOfStatement' && node.await)) return true
  return children(node).some((c) => !isFunction(c) && c.type !== 'PropertyDefinition' && c.type !== 'StaticBlock' && awaits(c))
}

class Cell {
  constructor(code) {
    this.code = code
    this.edits = []              // [from, to, text], in order of `from`
    this.globals = new Set()
    this.hoisted = []            // function declarations of an async cell
    this.program = acorn.parse(code, grammar)
    this.async = this.program.body.some((n) => awaits(n))
  }

  edit(from, to, by) { this.edits.push([from, to, by]) }
  source(node) { return this.code.slice(node.start, node.end) }
  bind(pattern) { for (const n of names(pattern)) this.globals.add(n) }

  // import() as from a file in the working directory.
  dynamicImports(node) {
    if (node.type === 'ImportExpression') this.edit(node.start, node.start + 'import'.length, '__hutch_import')
    for (const c of children(node)) this.dynamicImports(c)
  }

  // `let a = 1, {b} = c` becomes `void (a = 1, {b} = c)`: values are not shown for declarations.
  declaration(node, inHead) {
    for (const d of node.declarations) this.bind(d.id)
    if (inHead) {                                                    // for (var x of xs), for (var i = 0; ..)
      if (node.declarations.every((d) => d.init === null)) {
        if (node.declarations.length > 1) this.edit(node.start, node.end, node.declarations.map((d) => this.source(d.id)).join(', '))
        else this.edit(node.start, node.declarations[0].start, '')
        return
      }
    }
    const first = node.declarations[0]
    this.edit(node.start, first.start, inHead ? '' : 'void (')
    for (const d of node.declarations) {
      if (d.init === null && node.kind === 'var') this.edit(d.start, d.end, '0')      // it keeps its value
      else if (d.init === null) this.edit(d.end, d.end, ' = undefined')
      else if (d.id.type === 'ObjectPattern') { this.edit(d.start, d.start, '('); this.edit(d.end, d.end, ')') }
      if (d.init !== null) this.inside(d.init)
    }
    if (!inHead) {
      const last = node.declarations.at(-1).end
      this.edit(last, node.end, ');')
    }
  }

  // `var` below the top level of an async cell.
  inside(node) {
    if (!this.async || isFunction(node) || /^Class/.test(node.type)) return
    if (node.type === 'VariableDeclaration' && node.kind === 'var') return this.declaration(node, false)
    if (/^For(In|Of)?Statement$/.test(node.type)) {
      const head = node.init ?? node.left
      if (head?.type === 'VariableDeclaration' && head.kind === 'var') this.declaration(head, true)
      else if (head) this.inside(head)
      for (const c of [node.test, node.update, node.right, node.body]) if (c) this.inside(c)
      return
    }
    for (const c of children(node)) this.inside(c)
  }

  import(node) {
    const from = `await __hutch_import(${JSON.stringify(node.source.value)})`
    const parts = []
    let all = null
    for (const s of node.specifiers) {
      this.globals.add(s.local.name)
      if (s.type === 'ImportNamespaceSpecifier') all = s.local.name
      else parts.push(`${s.type === 'ImportDefaultSpecifier' ? 'default' : s.imported.raw ?? s.imported.name}: ${s.local.name}`)
    }
    const lines = this.source(node).split('\n').length - 1
    let by = all === null && parts.length === 0 ? `void ${from};` : ''
    if (parts.length > 0) by += `({${parts.join(', ')}} = ${from});`
    if (all !== null) by += `void (${all} = ${from});`
    this.edit(node.start, node.end, by + '\n'.repeat(lines))
  }

  export(node) {
    if (node.type === 'ExportDefaultDeclaration' && !node.declaration.id) {
      this.edit(node.start, node.declaration.start, 'void (')
      this.edit(node.declaration.end, node.end, ');')
    } else if (node.declaration) {
      this.edit(node.start, node.declaration.start, '')
      this.statement(node.declaration)
    } else {
      this.edit(node.start, node.end, '')
    }
  }

  statement(node) {
    switch (node.type) {
      case 'ImportDeclaration': return this.import(node)
      case 'ExportNamedDeclaration': case 'ExportDefaultDeclaration': case 'ExportAllDeclaration': return this.export(node)
      case 'ClassDeclaration':
        this.globals.add(node.id.name)
        this.edit(node.start, node.start, `void (${node.id.name} = `)
        return this.edit(node.end, node.end, ');')
      case 'FunctionDeclaration':
        if (this.async) { this.globals.add(node.id.name); this.hoisted.push(node.id.name) }
        return
      case 'VariableDeclaration':
        if (this.async || node.kind !== 'var') this.declaration(node, false)
        return
      default: this.inside(node)
    }
  }

  // A script: without awaits one whose completion value is the cell's, else one that gives a promise of { value }.
  script() {
    const body = this.program.body
    this.dynamicImports(this.program)
    for (const node of body) this.statement(node)
    const last = body.at(-1)
    if (this.async && last?.type === 'ExpressionStatement') {
      this.edit(last.start, last.start, 'return { value: (')
      this.edit(last.expression.end, last.end, ') };')
    }
    let out = '', at = 0
    for (const [from, to, by] of this.edits.map((e, i) => [...e, i]).sort((a, b) => a[0] - b[0] || a[3] - b[3])) {
      out += this.code.slice(at, from) + by
      at = to
    }
    out += this.code.slice(at)
    const vars = this.globals.size > 0 ? `var ${[...this.globals].join(', ')}; ` : ''
    if (!this.async) return vars + out
    return `${vars}(async () => { ${this.hoisted.map((n) => `globalThis.${n} = ${n}; `).join('')}${out}\n})()`
  }
}

// ---- TypeScript

class TypeScriptUnavailable extends Error {
  constructor() {
    super(`TypeScript needs the program ${ESBUILD} (Debian package esbuild)`)
    this.name = 'TypeScriptUnavailable'
    this.stack = `${this.name}: ${this.message}`
  }
}

// Types are dropped, imports kept: a later cell may use them.
function strip(code, running) {
  const options = JSON.stringify({
    compilerOptions: { preserveValueImports: true, verbatimModuleSyntax: true, useDefineForClassFields: true, target: 'esnext' } })
  return new Promise((resolve, reject) => {
    const p = spawn(ESBUILD, ['--loader=ts', '--target=esnext', '--log-level=error', '--color=false', '--tsconfig-raw=' + options], { stdio: 'pipe' })
    const out = [], err = []
    running.stop = () => p.kill('SIGKILL')
    p.on('error', () => reject(new TypeScriptUnavailable()))
    p.stdout.on('data', (d) => out.push(d))
    p.stderr.on('data', (d) => err.push(d))
    p.stdin.on('error', () => {})
    p.on('close', (status) => {
      if (status === 0) return resolve(Buffer.concat(out).toString())
      const e = new SyntaxError(Buffer.concat(err).toString().trim().replace(/^✘ \[ERROR\] /, ''))
      e.stack = `SyntaxError: ${e.message}`
      reject(e)
    })
    p.stdin.end(code)
  })
}

// ---- cells

// As if the cell were a file in the working directory.
async function load(specifier) {
  const here = pathToFileURL(path.join(process.cwd(), 'cell.mjs')).href
  return import(await import.meta.resolve(specifier, here))
}

function enter(cell, script) {
  cell.entered = true
  try {
    return script.runInThisContext({ displayErrors: false })
  } finally {
    cell.entered = false         // not reached by what is ended from the other thread
  }
}

const nothing = Symbol('nothing')
async function evaluate(content, cell) {
  let code = String(content.code)
  if (content.language === 'typescript') code = await strip(code, cell)
  const parsed = new Cell(code)
  const script = new vm.Script(parsed.script(), { filename: `[cell ${count}]` })
  const value = enter(cell, script)
  if (!parsed.async) return value
  const got = await value
  return got === undefined ? nothing : got.value
}

// A cell ends once: what an interrupted one does afterwards is not told. An interrupt can come in the middle of this too; then it is done again.
function finish(cell, tell) {
  if (!cell.told) tell()
  cell.told = true
  if (!cell.ended) send('status', { execution_state: 'idle' })
  cell.ended = true
}

async function run({ id, content }) {
  const cell = { id, entered: false, told: false, ended: false, stop() {} }
  current = cell
  send('status', { execution_state: 'busy' })
  if (!content.silent) send('execute_input', { execution_count: ++count })
  try {
    const value = await evaluate(content, cell)
    const data = content.silent || value === nothing || value === undefined ? null : bundle(value)
    finish(cell, () => data !== null && send('execute_result', { data }))
  } catch (e) {
    finish(cell, () => fail(e))
  }
}

function interrupt(cell) {
  if (cell === null || cell.ended) return
  cell.stop()
  finish(cell, () => fail(new Interrupt()))
}

// ---- the main thread

function kernel() {
  const thread = new Worker(new URL(import.meta.url))
  thread.on('message', (message) => {
    if (current?.entered || (message.type === 'interrupt_request' && current?.id === message.id)) interrupt(current)
    if (message.type === 'interrupt_request') thread.postMessage(message.id)
    else if (message.type === 'execute_request') run(message)
  })
  thread.on('error', end)
  globalThis.require = createRequire(path.join(process.cwd(), 'cell.js'))
  globalThis.display = display
  Object.defineProperty(globalThis, '__hutch_import', { value: load })
  globalThis.console = new Console({ stdout: { write: writer('stdout') }, stderr: { write: writer('stderr') }, ignoreErrors: false })
  process.stdout.write = writer('stdout')
  process.stderr.write = writer('stderr')
  process.exit = process.reallyExit = end       // as of every kernel: it is started anew
  process.argv.splice(1)
  process.on('SIGINT', () => {})
  process.on('uncaughtException', (e) => text('stderr', `Uncaught ${util.inspect(e)}\n`))
  process.on('unhandledRejection', (e) => text('stderr', `Uncaught (in promise) ${util.inspect(e)}\n`))

  const chdir = process.chdir
  process.chdir = (to) => {
    chdir(to)
    globalThis.require = createRequire(path.join(process.cwd(), 'cell.js'))
  }
  thread.once('online', () => send('ready'))
}

if (isMainThread) kernel()
else reader()
