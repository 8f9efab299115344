noinst_LIBRARIES += src/libutil.a
src_libutil_a_SOURCES = src/util/err.c src/util/buf.c src/util/jsonw.c src/util/jsonr.c src/util/jsongrammar.c src/util/jsongrammar.h src/util/log.c \
	src/util/crypto.c src/util/encode.c src/util/uri.c src/util/opt.c src/util/envd.c src/util/when.c src/util/conf.c src/util/io.c src/util/secret.c \
	src/util/seal.c src/util/address.c
src_libutil_a_SOURCES += src/util/netrules.c
src_libutil_a_SOURCES += src/util/cert.c
src_libutil_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS) $(CRYPTO_CFLAGS)
