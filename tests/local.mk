# Unit tests: one program per module, sources default to tests/unit/test_MODULE.c
if HAVE_CMOCKA
include tests/unit/local.mk
endif

include tests/scenario/local.mk
include tests/node/local.mk

# What has threads, under the thread sanitizer: in a build with --enable-sanitizers=thread. The agent's tests are not among them: the sanitizer
# cannot follow a child that shares its parent's memory until it executes its program. A thread that is left at the end is no fault: a call may hang.
RACING = tests/unit/test_h1_server tests/unit/test_relay tests/unit/test_edge tests/unit/test_store tests/unit/test_sandbox \
	tests/unit/test_pause tests/unit/test_keys tests/unit/test_hook tests/unit/test_pool tests/unit/test_reaper tests/unit/test_responder
check-races: all
	TSAN_OPTIONS="report_thread_leaks=0:$$TSAN_OPTIONS" $(MAKE) $(AM_MAKEFLAGS) check check_PROGRAMS='$(RACING) tests/probe/probe' TESTS='$(RACING) tests/node/test_node.py'
.PHONY: check-races
