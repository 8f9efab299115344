noinst_LIBRARIES += src/librelay.a
noinst_HEADERS += include/hutch/relay.h src/relay/relay_int.h
src_librelay_a_SOURCES = src/relay/relay.c src/relay/loop.c src/relay/link.c src/relay/stream.c src/relay/flow.c src/relay/head.c src/relay/job.c
src_librelay_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
# who links it also links the layers of domain
RELAY_LIBS = src/librelay.a src/libedge.a src/libh1.a
