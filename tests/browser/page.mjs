// A page that uses the published client as it is; bundled by esbuild. The outcome goes into the document, for the test and for the eye.
import { Sandbox } from 'e2b'

const show = (name, value) => {
  const p = document.createElement('p')
  p.id = name
  p.textContent = `${name}: ${value}`
  document.body.append(p)
}

window.run = async (opts) => {
  try {
    const s = await Sandbox.create('base', { ...opts, timeoutMs: 1_200_000 })
    show('id', s.sandboxId)
    await s.files.write('/home/user/from-page.txt', 'written by a page ☃')
    show('file', await s.files.read('/home/user/from-page.txt'))
    const lines = []
    const r = await s.commands.run('for i in 1 2 3; do echo line $i; done; uname -s >&2', { onStdout: (t) => lines.push(t) })
    show('command', JSON.stringify([r.stdout, r.stderr, r.exitCode]))
    show('host', s.getHost(3000))
    show('ended', await s.kill())
    show('running', await s.isRunning())
    show('done', 'yes')
  } catch (e) {
    show('error', `${e.name}: ${e.message}`)
    show('done', 'no')
  }
}
