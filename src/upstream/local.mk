noinst_LIBRARIES += src/libupstream.a
src_libupstream_a_SOURCES = src/upstream/refresh.c src/upstream/fetch.c src/upstream/fetch.h
src_libupstream_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS) $(CURL_CFLAGS)
UPSTREAM_LIBS = src/libupstream.a $(DOMAIN_LIBS)
