check_LIBRARIES += tests/unit/libworld.a
tests_unit_libworld_a_SOURCES = tests/unit/world.c tests/unit/world.h tests/unit/fake_pool.c tests/unit/fake_pool.h
tests_unit_libworld_a_CPPFLAGS = $(UNIT_CPPFLAGS)

DOMAIN_TESTS = tests/unit/test_team tests/unit/test_template tests/unit/test_sandbox tests/unit/test_list tests/unit/test_reap \
	tests/unit/test_crash tests/unit/test_admit tests/unit/test_pools tests/unit/test_clock tests/unit/test_pause tests/unit/test_network \
	tests/unit/test_snapshot tests/unit/test_template_list
check_PROGRAMS += $(DOMAIN_TESTS)
TESTS += $(DOMAIN_TESTS)
DOMAIN_TEST_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/src/domain
DOMAIN_TEST_LIBS = tests/unit/libworld.a tests/unit/libscratch.a $(DOMAIN_LIBS) $(CMOCKA_LIBS)
tests_unit_test_team_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_team_LDADD = $(DOMAIN_TEST_LIBS)
tests_unit_test_template_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_template_LDADD = $(DOMAIN_TEST_LIBS)
tests_unit_test_sandbox_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_sandbox_LDADD = $(DOMAIN_TEST_LIBS)
tests_unit_test_list_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_list_LDADD = $(DOMAIN_TEST_LIBS)
tests_unit_test_reap_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_reap_LDADD = $(DOMAIN_TEST_LIBS)
tests_unit_test_network_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_network_LDADD = $(DOMAIN_TEST_LIBS)
tests_unit_test_pause_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_pause_LDADD = $(DOMAIN_TEST_LIBS)
tests_unit_test_snapshot_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_snapshot_LDADD = $(DOMAIN_TEST_LIBS)
tests_unit_test_template_list_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_template_list_LDADD = $(DOMAIN_TEST_LIBS)
tests_unit_test_crash_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_crash_LDADD = $(DOMAIN_TEST_LIBS)
tests_unit_test_clock_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_clock_LDADD = $(DOMAIN_TEST_LIBS)
tests_unit_test_admit_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_admit_LDADD = $(DOMAIN_TEST_LIBS)
tests_unit_test_pools_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_pools_LDADD = $(DOMAIN_TEST_LIBS)

check_PROGRAMS += tests/unit/test_webhook tests/unit/test_hook tests/unit/test_upstream
TESTS += tests/unit/test_webhook tests/unit/test_hook tests/unit/test_upstream
tests_unit_test_upstream_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_upstream_LDADD = $(DOMAIN_TEST_LIBS)
tests_unit_test_webhook_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_webhook_LDADD = $(DOMAIN_TEST_LIBS)
tests_unit_test_hook_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_hook_LDADD = tests/unit/libdouble.a tests/unit/libworld.a tests/unit/libscratch.a $(HOOK_LIBS) src/libh1.a \
	$(UTIL_LIBS) $(CMOCKA_LIBS)

KEYS_TESTS = tests/unit/test_keys tests/unit/test_sample tests/unit/test_journal
check_PROGRAMS += $(KEYS_TESTS)
TESTS += $(KEYS_TESTS)
tests_unit_test_keys_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_keys_LDADD = $(DOMAIN_TEST_LIBS)
tests_unit_test_journal_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_journal_LDADD = $(DOMAIN_TEST_LIBS)
tests_unit_test_sample_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_sample_LDADD = $(DOMAIN_TEST_LIBS)

check_LIBRARIES += tests/unit/libdouble.a
tests_unit_libdouble_a_SOURCES = tests/unit/node_double.c tests/unit/node_double.h tests/unit/reaper_program.c tests/unit/reaper_program.h
tests_unit_libdouble_a_CPPFLAGS = $(UNIT_CPPFLAGS)

check_PROGRAMS += tests/unit/test_pool
TESTS += tests/unit/test_pool
tests_unit_test_pool_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/src/pool
tests_unit_test_pool_LDADD = tests/unit/libdouble.a tests/unit/libworld.a tests/unit/libscratch.a $(DOMAIN_LIBS) src/libh1.a \
	$(UTIL_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_reaper
TESTS += tests/unit/test_reaper
tests_unit_test_reaper_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS)
tests_unit_test_reaper_LDADD = tests/unit/libdouble.a $(DOMAIN_TEST_LIBS) src/libh1.a $(UTIL_LIBS)

check_PROGRAMS += tests/fuzz/replay_record tests/fuzz/replay_files
TESTS += tests/fuzz/replay_record tests/fuzz/replay_files
tests_fuzz_replay_files_SOURCES = tests/fuzz/fuzz_files.c tests/fuzz/replay.c
tests_fuzz_replay_files_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS) -DSEEDS='"tests/fuzz/seeds/files"'
tests_fuzz_replay_files_LDADD = $(DOMAIN_LIBS)
tests_fuzz_replay_record_SOURCES = tests/fuzz/fuzz_record.c tests/fuzz/replay.c
tests_fuzz_replay_record_CPPFLAGS = $(DOMAIN_TEST_CPPFLAGS) $(LMDB_CFLAGS) -I$(top_srcdir)/src/store -DSEEDS='"tests/fuzz/seeds/record"'
tests_fuzz_replay_record_LDADD = $(DOMAIN_LIBS)
EXTRA_DIST += tests/fuzz/seeds/record tests/fuzz/seeds/files
