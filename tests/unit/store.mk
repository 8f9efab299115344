check_LIBRARIES += tests/unit/libscratch.a
tests_unit_libscratch_a_SOURCES = tests/unit/scratch.c tests/unit/scratch.h

STORE_TESTS = tests/unit/test_pack tests/unit/test_store
check_PROGRAMS += $(STORE_TESTS)
TESTS += $(STORE_TESTS)
STORE_TEST_CPPFLAGS = $(UNIT_CPPFLAGS) $(LMDB_CFLAGS) -I$(top_srcdir)/src/store
STORE_TEST_LIBS = tests/unit/libscratch.a $(STORE_LIBS) $(CMOCKA_LIBS)
tests_unit_test_pack_CPPFLAGS = $(STORE_TEST_CPPFLAGS)
tests_unit_test_pack_LDADD = $(STORE_TEST_LIBS)
tests_unit_test_store_CPPFLAGS = $(STORE_TEST_CPPFLAGS)
tests_unit_test_store_LDADD = $(STORE_TEST_LIBS)
