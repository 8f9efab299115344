noinst_LIBRARIES += src/libhook.a
noinst_HEADERS += src/hook/hook_int.h
src_libhook_a_SOURCES = src/hook/sender.c src/hook/attempt.c src/hook/lane.c
src_libhook_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS) $(CURL_CFLAGS)
HOOK_LIBS = src/libhook.a $(DOMAIN_LIBS)
