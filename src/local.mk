# Archives from the bottom up; a program links its own layer and those below.
noinst_HEADERS += include/hutch/err.h include/hutch/buf.h include/hutch/json.h include/hutch/log.h include/hutch/crypto.h \
	include/hutch/when.h include/hutch/sanitize.h include/hutch/conf.h include/hutch/secret.h include/hutch/envd.h include/hutch/h1.h \
	include/hutch/store.h include/hutch/pool.h include/hutch/domain.h include/hutch/edge.h include/hutch/call.h \
	include/hutch/address.h include/hutch/io.h include/hutch/webhook.h include/hutch/hook.h include/hutch/cert.h include/hutch/netrules.h include/hutch/seal.h \
	include/hutch/upstream.h include/hutch/uri.h include/hutch/opt.h
UTIL_LIBS = src/libutil.a $(JSONC_LIBS) $(CRYPTO_LIBS)

include src/util/local.mk
include src/h1/local.mk
include src/store/local.mk
include src/pool/local.mk
include src/domain/local.mk
include src/hook/local.mk
include src/upstream/local.mk
include src/edge/local.mk
include src/http/local.mk
include src/responder/local.mk
include src/agent/local.mk
include src/interpreter/local.mk
include src/node/local.mk
include src/relay/local.mk
include src/cmd/local.mk
