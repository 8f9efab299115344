noinst_LIBRARIES += src/libhttp.a
noinst_HEADERS += src/http/front.h
src_libhttp_a_SOURCES = src/http/status.c src/http/query.c src/http/reply.c src/http/route.c src/http/front.c \
	src/http/cgi.c src/http/fcgi.c src/http/responder.c
src_libhttp_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
# what a responder links
HTTP_LIBS = src/libhttp.a $(FCGI_LIBS) $(DOMAIN_LIBS)
