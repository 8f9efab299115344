HTTP_TESTS = tests/unit/test_route tests/unit/test_front
check_PROGRAMS += $(HTTP_TESTS)
TESTS += $(HTTP_TESTS)
noinst_HEADERS += tests/unit/http_fake.h
tests_unit_test_route_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_route_LDADD = src/libhttp.a $(UTIL_LIBS) $(CMOCKA_LIBS)
tests_unit_test_front_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/src/http
tests_unit_test_front_LDADD = src/libhttp.a $(UTIL_LIBS) $(CMOCKA_LIBS)

RESPONDER_TESTS = tests/unit/test_query tests/unit/test_body tests/unit/test_docs
check_PROGRAMS += $(RESPONDER_TESTS)
TESTS += $(RESPONDER_TESTS)
tests_unit_test_query_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/src/responder
tests_unit_test_query_LDADD = $(RESPONDER_LIBS) $(CMOCKA_LIBS)
tests_unit_test_body_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/src/responder
tests_unit_test_docs_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/src/responder
tests_unit_test_docs_LDADD = $(RESPONDER_LIBS) $(CMOCKA_LIBS)
EXTRA_DIST += docs/api.md docs/configure.md
tests_unit_test_body_LDADD = $(RESPONDER_LIBS) $(CMOCKA_LIBS)

# handlers on real records
check_PROGRAMS += tests/unit/test_logs
TESTS += tests/unit/test_logs
tests_unit_test_logs_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/src/responder
tests_unit_test_logs_LDADD = tests/unit/libworld.a tests/unit/libscratch.a $(RESPONDER_LIBS) $(CMOCKA_LIBS)

# the built programs, by CGI and FastCGI
check_PROGRAMS += tests/unit/test_responder
TESTS += tests/unit/test_responder
noinst_HEADERS += tests/unit/fcgi_client.h
tests_unit_test_responder_CPPFLAGS = $(UNIT_CPPFLAGS) -DBUILDDIR='"$(abs_top_builddir)"'
tests_unit_test_responder_LDADD = $(H1_LIBS) $(CMOCKA_LIBS)

# fuzz targets over their seeds
HTTP_REPLAYS = tests/fuzz/replay_route tests/fuzz/replay_query tests/fuzz/replay_body tests/fuzz/replay_front tests/fuzz/replay_api
check_PROGRAMS += $(HTTP_REPLAYS)
TESTS += $(HTTP_REPLAYS)
tests_fuzz_replay_route_SOURCES = tests/fuzz/fuzz_route.c tests/fuzz/replay.c
tests_fuzz_replay_route_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/src/responder -DSEEDS='"tests/fuzz/seeds/route"'
tests_fuzz_replay_route_LDADD = $(RESPONDER_LIBS)
tests_fuzz_replay_query_SOURCES = tests/fuzz/fuzz_query.c tests/fuzz/replay.c
tests_fuzz_replay_query_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/src/responder -DSEEDS='"tests/fuzz/seeds/query"'
tests_fuzz_replay_query_LDADD = $(RESPONDER_LIBS)
tests_fuzz_replay_body_SOURCES = tests/fuzz/fuzz_body.c tests/fuzz/replay.c
tests_fuzz_replay_body_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/src/responder -DSEEDS='"tests/fuzz/seeds/body"'
tests_fuzz_replay_body_LDADD = $(RESPONDER_LIBS)
tests_fuzz_replay_front_SOURCES = tests/fuzz/fuzz_front.c tests/fuzz/replay.c
tests_fuzz_replay_front_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/src/http -DSEEDS='"tests/fuzz/seeds/front"'
tests_fuzz_replay_front_LDADD = $(RESPONDER_LIBS)
tests_fuzz_replay_api_SOURCES = tests/fuzz/fuzz_api.c tests/fuzz/replay.c
tests_fuzz_replay_api_CPPFLAGS = $(UNIT_CPPFLAGS) $(LMDB_CFLAGS) -I$(top_srcdir)/src/responder -I$(top_srcdir)/src/store -I$(top_srcdir)/tests/unit \
	-DSEEDS='"tests/fuzz/seeds/api"'
tests_fuzz_replay_api_LDADD = src/libresponder.a src/libhttp.a tests/unit/libworld.a tests/unit/libscratch.a $(RESPONDER_LIBS) $(CMOCKA_LIBS)
EXTRA_DIST += tests/fuzz/seeds/route tests/fuzz/seeds/query tests/fuzz/seeds/body tests/fuzz/seeds/front tests/fuzz/seeds/api tests/fuzz/run
