H1_TESTS = tests/unit/test_h1_parse tests/unit/test_h1_server tests/fuzz/replay_h1
check_PROGRAMS += $(H1_TESTS)
TESTS += $(H1_TESTS)
tests_unit_test_h1_parse_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_h1_parse_LDADD = $(H1_LIBS) $(CMOCKA_LIBS)
tests_unit_test_h1_server_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_h1_server_LDADD = $(H1_LIBS) $(CMOCKA_LIBS)
tests_fuzz_replay_h1_SOURCES = tests/fuzz/fuzz_h1.c tests/fuzz/replay.c
tests_fuzz_replay_h1_CPPFLAGS = $(AM_CPPFLAGS) -DSEEDS='"tests/fuzz/seeds/h1"'
tests_fuzz_replay_h1_LDADD = $(H1_LIBS)
EXTRA_DIST += tests/fuzz/seeds/h1

EDGE_TESTS = tests/unit/test_edge tests/unit/test_fixture tests/fuzz/replay_edge
check_PROGRAMS += $(EDGE_TESTS)
TESTS += $(EDGE_TESTS)
tests_unit_test_edge_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/src/edge
tests_unit_test_edge_LDADD = $(EDGE_LIBS) $(DOMAIN_LIBS) $(CMOCKA_LIBS)
tests_unit_test_fixture_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/src/edge
tests_unit_test_fixture_LDADD = $(EDGE_LIBS) $(DOMAIN_LIBS) $(CMOCKA_LIBS)
tests_fuzz_replay_edge_SOURCES = tests/fuzz/fuzz_edge.c tests/fuzz/replay.c
tests_fuzz_replay_edge_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src/edge -DSEEDS='"tests/fuzz/seeds/edge"'
tests_fuzz_replay_edge_LDADD = $(EDGE_LIBS) $(UTIL_LIBS)
EXTRA_DIST += tests/fuzz/seeds/edge

RELAY_TESTS = tests/unit/test_relay
check_PROGRAMS += $(RELAY_TESTS)
TESTS += $(RELAY_TESTS)
tests_unit_test_relay_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_relay_LDADD = $(RELAY_LIBS) $(DOMAIN_LIBS) $(CMOCKA_LIBS)
