# rows of src/cmd
sbin_PROGRAMS += hutch-sandboxes hutch-templates hutch-teams hutch-events hutch-doors
hutch_sandboxes_SOURCES = src/cmd/sandboxes.c
hutch_sandboxes_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
hutch_sandboxes_LDADD = $(RESPONDER_LIBS)
hutch_templates_SOURCES = src/cmd/templates.c
hutch_templates_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
hutch_templates_LDADD = $(RESPONDER_LIBS)
hutch_teams_SOURCES = src/cmd/teams.c
hutch_teams_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
hutch_teams_LDADD = $(RESPONDER_LIBS)
hutch_events_SOURCES = src/cmd/events.c
hutch_events_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
hutch_events_LDADD = $(RESPONDER_LIBS)
hutch_doors_SOURCES = src/cmd/doors.c
hutch_doors_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
hutch_doors_LDADD = $(RESPONDER_LIBS)

sbin_PROGRAMS += hutchctl
hutchctl_SOURCES = src/cmd/hutchctl.c src/cmd/ctl.h src/cmd/ctl_records.c src/cmd/ctl_pool.c src/cmd/ctl_upstream.c src/cmd/ctl_deliveries.c \
	src/cmd/ctl_check.c src/cmd/ctl_init.c src/cmd/ctl_tls.c src/cmd/ctl_responders.c src/cmd/spawn.h src/cmd/ctl_doctor.c \
	src/cmd/ctl_try.c src/cmd/guest.c src/cmd/guest.h
hutchctl_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src -I$(top_srcdir)/src/node $(JSONC_CFLAGS) $(CURL_CFLAGS)
hutchctl_LDADD = src/libnode.a $(DOMAIN_LIBS) $(CURL_LIBS)
dist_man_MANS += man/hutch-sandboxes.8 man/hutch-templates.8 man/hutch-teams.8 man/hutch-events.8 man/hutch-doors.8 man/hutchctl.8

sbin_PROGRAMS += hutch-reaper
hutch_reaper_SOURCES = src/cmd/reaper.c src/cmd/reaper.h src/cmd/reaper_workers.c src/cmd/reaper_keeper.c src/cmd/keywatch.c src/cmd/keywatch.h
hutch_reaper_LDADD = src/libupstream.a $(HOOK_LIBS)
dist_man_MANS += man/hutch-reaper.8
sbin_PROGRAMS += hutch-edge
hutch_edge_SOURCES = src/cmd/edge.c
hutch_edge_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
hutch_edge_LDADD = $(EDGE_LIBS) $(HTTP_LIBS) $(DOMAIN_LIBS)
dist_man_MANS += man/hutch-edge.8

hutchlibexec_PROGRAMS += hutch-envd
hutch_envd_SOURCES = src/cmd/envd.c
hutch_envd_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
hutch_envd_LDFLAGS = $(AM_LDFLAGS) $(AGENT_LDFLAGS)
hutch_envd_LDADD = $(AGENT_LIBS) $(AGENT_STATIC_LIBS)
dist_man_MANS += man/hutch-envd.8

sbin_PROGRAMS += hutch-relay
hutch_relay_SOURCES = src/cmd/relay.c
hutch_relay_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
hutch_relay_LDADD = $(RELAY_LIBS) $(DOMAIN_LIBS)
dist_man_MANS += man/hutch-relay.8

sbin_PROGRAMS += hutch-node
hutch_node_SOURCES = src/cmd/node.c
hutch_node_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src $(JSONC_CFLAGS)
hutch_node_LDADD = $(NODE_LIBS)
dist_man_MANS += man/hutch-node.8

sbin_PROGRAMS += hutch-fake
hutch_fake_SOURCES = src/cmd/fake.c
hutch_fake_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src $(JSONC_CFLAGS)
hutch_fake_LDADD = $(EDGE_LIBS) $(H1_LIBS) $(DOMAIN_LIBS)
dist_man_MANS += man/hutch-fake.8

hutchlibexec_PROGRAMS += hutch-interpreter
hutch_interpreter_SOURCES = src/cmd/interpreter.c
hutch_interpreter_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
hutch_interpreter_LDFLAGS = $(AM_LDFLAGS) $(AGENT_LDFLAGS)
hutch_interpreter_LDADD = $(INTERPRETER_LIBS) $(AGENT_STATIC_LIBS)
dist_man_MANS += man/hutch-interpreter.8

sbin_PROGRAMS += hutch-spawn
hutch_spawn_SOURCES = src/cmd/spawn.c src/cmd/spawn.h
hutch_spawn_LDADD = $(H1_LIBS)
dist_man_MANS += man/hutch-spawn.8
