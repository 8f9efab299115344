# hutch-node on a real kernel (root only), with a probe in the agent's place.
# The probe is static and without sanitizers: it runs in roots that hold nothing else.
check_PROGRAMS += tests/probe/probe
tests_probe_probe_SOURCES = tests/probe/probe.c
tests_probe_probe_CFLAGS = -std=gnu11 $(WARN_CFLAGS)
tests_probe_probe_LDFLAGS = -static
AM_TESTS_ENVIRONMENT = builddir='$(abs_top_builddir)'; export builddir;
dist_check_SCRIPTS += tests/node/test_node.py tests/node/test_checkpoint.py
TESTS += tests/node/test_node.py tests/node/test_checkpoint.py
EXTRA_DIST += tests/node/pool.py
