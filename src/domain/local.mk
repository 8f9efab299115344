noinst_LIBRARIES += src/libdomain.a
src_libdomain_a_SOURCES = src/domain/domain_int.h src/domain/domain.c src/domain/admit.c src/domain/pools.c src/domain/clock.c src/domain/nudge.c \
	src/domain/name.c src/domain/map.c \
	src/domain/event.c src/domain/team.c src/domain/template.c src/domain/enrol.c src/domain/create.c src/domain/reserve.c src/domain/kill.c src/domain/pause.c src/domain/resume.c \
	src/domain/lease.c src/domain/list.c src/domain/trim.c src/domain/crew.c src/domain/reap.c src/domain/audit.c \
	src/domain/event_text.c src/domain/webhook.c src/domain/webhook_url.c src/domain/outbox.c src/domain/settle.c
src_libdomain_a_SOURCES += src/domain/key.c src/domain/keyfile.c src/domain/auth.c src/domain/start.c src/domain/rate.c src/domain/count.c \
	src/domain/across.c src/domain/network.c src/domain/sample.c src/domain/journal.c \
	src/domain/upstream.c src/domain/vendor.c src/domain/mirror.c src/domain/ingest.c src/domain/budget.c
src_libdomain_a_SOURCES += src/domain/page.c src/domain/origin.c src/domain/snapshot.c src/domain/snapshot_list.c src/domain/captures.c \
	src/domain/template_list.c src/domain/template_delete.c src/domain/fork.c
src_libdomain_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS) $(CURL_CFLAGS)
DOMAIN_LIBS = src/libdomain.a src/libpool.a src/libstore.a $(CURL_LIBS) $(LMDB_LIBS) $(UTIL_LIBS)
