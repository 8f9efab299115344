noinst_LIBRARIES += src/libagent.a
noinst_HEADERS += src/agent/agent.h src/agent/files.h src/agent/watcher.h src/agent/strset.h src/agent/process.h \
	src/agent/forward.h src/agent/host.h src/agent/journal.h
AGENT_FILES_SOURCES = src/agent/names.c src/agent/users.c src/agent/paths.c src/agent/reach.c src/agent/entry.c src/agent/walk.c \
	src/agent/metadata.c src/agent/signature.c src/agent/filesystem.c src/agent/files_get.c src/agent/files_post.c \
	src/agent/body.c src/agent/multipart.c src/agent/compose.c src/agent/watch.c src/agent/watcher.c src/agent/strset.c
AGENT_PROCESS_SOURCES = src/agent/process.c src/agent/process_rpc.c src/agent/pump.c src/agent/spawn.c src/agent/launch.c \
	src/agent/event.c src/agent/note.c src/agent/follow.c src/agent/input.c
src_libagent_a_SOURCES = src/agent/connect.c src/agent/rest.c src/agent/light.c src/agent/basic.c src/agent/init.c src/agent/host.c \
	src/agent/metrics.c src/agent/ctl.c \
	src/agent/forward.c src/agent/cut.c src/agent/refuse.c src/agent/start.c src/agent/journal.c $(AGENT_PROCESS_SOURCES) $(AGENT_FILES_SOURCES)
src_libagent_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS) $(CRYPTO_CFLAGS) $(ZLIB_CFLAGS)
AGENT_LIBS = src/libagent.a $(H1_LIBS) $(ZLIB_LIBS)
