# The code interpreter, up to its processes (tests/scenario/interpreter.py runs it with real kernels).
INTERPRETER_TESTS = tests/unit/test_interpreter tests/fuzz/replay_zmtp
check_PROGRAMS += $(INTERPRETER_TESTS)
TESTS += $(INTERPRETER_TESTS)
INTERPRETER_TEST_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/src/interpreter
tests_unit_test_interpreter_CPPFLAGS = $(INTERPRETER_TEST_CPPFLAGS)
tests_unit_test_interpreter_LDADD = $(INTERPRETER_LIBS) $(CMOCKA_LIBS)
tests_fuzz_replay_zmtp_SOURCES = tests/fuzz/fuzz_zmtp.c tests/fuzz/replay.c
tests_fuzz_replay_zmtp_CPPFLAGS = $(INTERPRETER_TEST_CPPFLAGS) -DSEEDS='"tests/fuzz/seeds/zmtp"'
tests_fuzz_replay_zmtp_LDADD = $(INTERPRETER_LIBS)
EXTRA_DIST += tests/fuzz/seeds/zmtp
# Kernels of our own, each alone at the end of a socket pair.
dist_check_SCRIPTS += tests/interpreter/test_drivers.py
TESTS += tests/interpreter/test_drivers.py
