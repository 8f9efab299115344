noinst_LIBRARIES += src/libresponder.a
noinst_HEADERS += src/responder/responder.h
src_libresponder_a_SOURCES = src/responder/sandboxes.c src/responder/sandbox_create.c src/responder/create_body.c \
	src/responder/sandbox_read.c src/responder/list_query.c src/responder/network_body.c src/responder/sandbox_lease.c src/responder/sandbox_json.c \
	src/responder/events.c src/responder/webhooks.c \
	src/responder/teams.c src/responder/doors.c src/responder/health.c
src_libresponder_a_SOURCES += src/responder/keys.c src/responder/admin.c src/responder/team_metrics.c src/responder/sandbox_metrics.c \
	src/responder/sandbox_logs.c src/responder/prometheus.c src/responder/upstream.c
src_libresponder_a_SOURCES += src/responder/templates.c src/responder/template_json.c src/responder/snapshots.c
src_libresponder_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
RESPONDER_LIBS = src/libresponder.a $(HTTP_LIBS)
