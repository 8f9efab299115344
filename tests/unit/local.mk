UNIT_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS) $(CRYPTO_CFLAGS) $(CMOCKA_CFLAGS)

include tests/unit/util.mk
include tests/unit/h1.mk
include tests/unit/store.mk
include tests/unit/domain.mk
include tests/unit/http.mk
include tests/unit/agent.mk
include tests/unit/files.mk
include tests/unit/node.mk
include tests/unit/interpreter.mk
