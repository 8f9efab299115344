# Benchmarks: built and run by `make bench` (as root), never by `make check`.
EXTRA_PROGRAMS += bench/hello bench/fill bench/churn bench/sink
bench_hello_SOURCES = bench/hello.c
bench_hello_LDADD = $(FCGI_LIBS)
bench_fill_SOURCES = bench/fill.c
bench_fill_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
bench_fill_LDADD = $(DOMAIN_LIBS)
bench_churn_SOURCES = bench/churn.c
bench_sink_SOURCES = bench/sink.c
bench_sink_LDADD = $(UTIL_LIBS)
CLEANFILES += bench/hello bench/fill bench/churn bench/sink
EXTRA_DIST += bench/run docs/performance.md

.PHONY: bench
bench: all bench/hello bench/fill bench/churn bench/sink
	$(srcdir)/bench/run --build $(abs_builddir)
