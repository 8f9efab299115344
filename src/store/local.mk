noinst_LIBRARIES += src/libstore.a
src_libstore_a_SOURCES = src/store/store_int.h src/store/env.c src/store/table.c src/store/pack.c src/store/team.c \
	src/store/template.c src/store/pool.c src/store/sandbox.c src/store/walk.c src/store/event.c src/store/room.c \
	src/store/webhook.c src/store/outbox.c src/store/delivery.c \
	src/store/check.c src/store/check_hooks.c src/store/snapshot.c src/store/check_snapshots.c
src_libstore_a_SOURCES += src/store/seen.c src/store/key.c src/store/sample.c src/store/line.c
src_libstore_a_CPPFLAGS = $(AM_CPPFLAGS) $(LMDB_CFLAGS)
STORE_LIBS = src/libstore.a $(LMDB_LIBS) $(UTIL_LIBS)
