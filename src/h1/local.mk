noinst_LIBRARIES += src/libh1.a
noinst_HEADERS += include/hutch/chunked.h
src_libh1_a_SOURCES = src/h1/parse.c src/h1/target.c src/h1/chunked.c src/h1/body.c src/h1/reply.c \
	src/h1/server.c src/h1/listen.c src/h1/conn.h
src_libh1_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
H1_LIBS = src/libh1.a $(UTIL_LIBS)
