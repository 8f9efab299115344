# Scenarios and SDK tests are run by runtests, on an installed or a built tree; make only carries them.
EXTRA_DIST += tests/scenario/interpreter.py tests/sdk/code-js/code.test.mjs tests/sdk/code-js/2.7.0/package.json \
	tests/sdk/code-js/2.8.0/package.json tests/sdk/code-py/code_test.py tests/sdk/code-py/2.9.0/requirements.txt tests/sdk/code-py/2.11.5/requirements.txt
EXTRA_DIST += tests/lib/local.py tests/lib/sdk.py
EXTRA_DIST += tests/lib/tap.py tests/lib/wire.py tests/lib/fcgi.py tests/lib/envd.py tests/lib/world.py tests/lib/stack.py tests/lib/servers.py \
	tests/lib/lab.py tests/lib/internet.py tests/scenario/network.py \
	tests/scenario/run.py tests/scenario/lifecycle.py tests/scenario/listing.py tests/scenario/access.py tests/scenario/badinput.py \
	tests/scenario/edge.py tests/scenario/lease.py tests/scenario/pause.py tests/scenario/snapshots.py tests/scenario/webhooks.py \
	tests/scenario/pools.py tests/scenario/twin.py \
	tests/scenario/walk.py tests/scenario/keys.py tests/scenario/vendor.py tests/data/operations.json tests/data/operations-more.json tests/data/make-operations \
	tests/scenario/startcmd.py tests/scenario/isolation.py tests/scenario/limits.py tests/scenario/busybox.py \
	tests/scenario/frontends.py tests/scenario/differences.py tests/scenario/outage.py tests/scenario/crash.py \
	tests/sdk/run.py tests/sdk/desktop-py/desktop_test.py tests/sdk/desktop-py/stand-ins.sh \
	tests/sdk/desktop-py/2.7.2/requirements.txt tests/sdk/cli/cli_test.py tests/sdk/cli/2.19.0/package.json tests/sdk/js/client.mjs tests/sdk/js/guest.test.mjs \
	tests/sdk/js/sdk.test.mjs tests/sdk/js/2.45.0/package.json tests/sdk/js/2.51.0/package.json \
	tests/sdk/py/guest_test.py tests/sdk/py/sdk_test.py tests/sdk/py/2.45.1/requirements.txt tests/sdk/py/2.63.0/requirements.txt
EXTRA_DIST += tests/lib/names.py tests/lib/guest_server.py tests/scenario/addressing.py tests/scenario/traffic.py tests/scenario/smuggling.py \
	tests/lib/recorder.py
EXTRA_DIST += tests/browser/run.py tests/browser/browser.test.mjs tests/browser/page.mjs tests/browser/package.json
EXTRA_DIST += tests/scenario/reload.py tests/scenario/agent.py
