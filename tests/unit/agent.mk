# The agent's framing, process service and main program (its file service: files.mk).
AGENT_TESTS = tests/unit/test_connect tests/unit/test_process tests/unit/test_envd tests/unit/test_light tests/unit/test_host
check_PROGRAMS += $(AGENT_TESTS)
TESTS += $(AGENT_TESTS)
AGENT_TEST_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/src/agent
tests_unit_test_host_SOURCES = tests/unit/test_host.c tests/unit/scratch.c tests/unit/scratch.h
tests_unit_test_host_CPPFLAGS = $(AGENT_TEST_CPPFLAGS)
tests_unit_test_host_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
tests_unit_test_connect_CPPFLAGS = $(AGENT_TEST_CPPFLAGS)
tests_unit_test_connect_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)

# These two run the built hutch-envd ($HUTCH_ENVD names another).
AGENT_CLIENT = tests/unit/envd_client.c tests/unit/envd_client.h
tests_unit_test_process_SOURCES = tests/unit/test_process.c $(AGENT_CLIENT)
tests_unit_test_process_CPPFLAGS = $(AGENT_TEST_CPPFLAGS)
tests_unit_test_process_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
tests_unit_test_envd_SOURCES = tests/unit/test_envd.c $(AGENT_CLIENT)
tests_unit_test_envd_CPPFLAGS = $(AGENT_TEST_CPPFLAGS)
tests_unit_test_envd_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
tests_unit_test_light_SOURCES = tests/unit/test_light.c tests/unit/scratch.c tests/unit/scratch.h $(AGENT_CLIENT)
tests_unit_test_light_CPPFLAGS = $(AGENT_TEST_CPPFLAGS)
tests_unit_test_light_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)

# its parsers over their seeds
check_PROGRAMS += tests/fuzz/replay_connect
TESTS += tests/fuzz/replay_connect
tests_fuzz_replay_connect_SOURCES = tests/fuzz/fuzz_connect.c tests/fuzz/replay.c tests/fuzz/memory_request.h
tests_fuzz_replay_connect_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS) -I$(top_srcdir)/src/agent -I$(top_srcdir)/src/h1 -DSEEDS='"tests/fuzz/seeds/connect"'
tests_fuzz_replay_connect_LDADD = $(AGENT_LIBS)
EXTRA_DIST += tests/fuzz/seeds/connect
