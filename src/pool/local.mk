noinst_LIBRARIES += src/libpool.a
src_libpool_a_SOURCES = src/pool/pool.c src/pool/kind.c src/pool/rows.c src/pool/node.c src/pool/nodehttp.c src/pool/nodehttp.h
src_libpool_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS) $(CURL_CFLAGS)
POOL_LIBS = src/libpool.a $(CURL_LIBS) $(UTIL_LIBS)
