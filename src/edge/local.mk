noinst_LIBRARIES += src/libedge.a
noinst_HEADERS += src/edge/place.h src/edge/fixture.h
src_libedge_a_SOURCES = src/edge/place.c src/edge/resolve.c src/edge/body.c src/edge/fixture.c
src_libedge_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
# who links it also links h1 and the layers of domain
EDGE_LIBS = src/libedge.a
