// The published JavaScript client and what all tests need. E2B_SDK is the directory whose node_modules holds it.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'

const require = createRequire(process.env.E2B_SDK + '/')
export const e2b = require('e2b')
export const version = require('e2b/package.json').version
export const debug = process.env.E2B_DEBUG === 'true'     // no API: the agent alone, on localhost

// The instance's time in ms, whatever is done to the wall clock.
export const now = () => Number(process.env.HUTCH_EPOCH) * 1000 + Number(process.hrtime.bigint() / 1_000_000n)

export const until = async (fn, ms, text) => {
  ms = Math.max(ms, 120_000)         // a shorter wait would tell how busy the machine is
  const end = Date.now() + ms
  for (;;) {
    const v = await fn()
    if (v) return v
    if (Date.now() > end) assert.fail(`${text}: not within ${ms} ms`)
    await new Promise((r) => setTimeout(r, 20))
  }
}

// What bounds a hang and nothing else; the client's own minute would tell how busy the machine is.
export const LONG = 600_000

const made = []
export const create = async (...args) => {
  const opts = typeof args.at(-1) === 'object' ? args.pop() : {}
  const s = await e2b.Sandbox.create(...args, { requestTimeoutMs: LONG, ...opts })
  made.push(s.sandboxId)
  return s
}
export const killAll = async () => { for (const id of made) await e2b.Sandbox.kill(id).catch(() => {}) }
