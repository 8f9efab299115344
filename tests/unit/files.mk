# The agent's file service.
FILES_TESTS = tests/unit/test_multipart
check_PROGRAMS += $(FILES_TESTS)
TESTS += $(FILES_TESTS)
FILES_TEST_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/src/agent
tests_unit_test_multipart_CPPFLAGS = $(FILES_TEST_CPPFLAGS)
tests_unit_test_multipart_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)

FILES_TESTS += tests/fuzz/replay_multipart
tests_fuzz_replay_multipart_SOURCES = tests/fuzz/fuzz_multipart.c tests/fuzz/replay.c
tests_fuzz_replay_multipart_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS) -I$(top_srcdir)/src/agent -DSEEDS='"tests/fuzz/seeds/multipart"'
tests_fuzz_replay_multipart_LDADD = $(AGENT_LIBS)
EXTRA_DIST += tests/fuzz/seeds/multipart

FILES_TESTS += tests/unit/test_filesystem
tests_unit_test_filesystem_SOURCES = tests/unit/test_filesystem.c tests/unit/files_client.c tests/unit/files_client.h
tests_unit_test_filesystem_CPPFLAGS = $(FILES_TEST_CPPFLAGS)
tests_unit_test_filesystem_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)

FILES_TESTS += tests/unit/test_transfer
tests_unit_test_transfer_SOURCES = tests/unit/test_transfer.c tests/unit/files_client.c tests/unit/files_client.h
tests_unit_test_transfer_CPPFLAGS = $(FILES_TEST_CPPFLAGS) $(ZLIB_CFLAGS)
tests_unit_test_transfer_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)

FILES_TESTS += tests/unit/test_watch
tests_unit_test_watch_SOURCES = tests/unit/test_watch.c tests/unit/files_client.c tests/unit/files_client.h
tests_unit_test_watch_CPPFLAGS = $(FILES_TEST_CPPFLAGS)
tests_unit_test_watch_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)

FILES_TESTS += tests/fuzz/replay_signature
tests_fuzz_replay_signature_SOURCES = tests/fuzz/fuzz_signature.c tests/fuzz/replay.c tests/fuzz/memory_request.h
tests_fuzz_replay_signature_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS) -I$(top_srcdir)/src/agent -I$(top_srcdir)/src/h1 -DSEEDS='"tests/fuzz/seeds/signature"'
tests_fuzz_replay_signature_LDADD = $(AGENT_LIBS)
EXTRA_DIST += tests/fuzz/seeds/signature
