# The local pool daemon: sandboxes from namespaces, control groups, overlay and loop disks.
noinst_LIBRARIES += src/libnode.a
noinst_HEADERS += src/node/base.h src/node/base_files.h src/node/cgroup.h src/node/checkpoint.h src/node/copytree.h src/node/ctl.h \
	src/node/disk.h src/node/disk_int.h src/node/files.h src/node/filter.h src/node/loop.h src/node/mountinfo.h src/node/node.h src/node/shape.h \
	src/node/spawn.h src/node/stage.h src/node/state.h src/node/sys.h src/node/tool.h
src_libnode_a_SOURCES = src/node/adopt.c src/node/api.c src/node/base.c src/node/base_files.c src/node/cgroup.c src/node/checkpoint.c \
	src/node/checkpoint_state.c src/node/child.c src/node/claim.c src/node/command.c src/node/confine.c src/node/copytree.c src/node/create.c src/node/ctl.c \
	src/node/disk.c src/node/disk_copy.c src/node/disk_reserve.c src/node/disk_size.c src/node/files.c \
	src/node/filter.c src/node/hibernate.c src/node/loop.c src/node/machine.c src/node/mountinfo.c src/node/node.c src/node/pools.c src/node/shape.c \
	src/node/spawn_client.c src/node/spawner.c src/node/stage.c src/node/state.c src/node/tool.c src/node/use.c src/node/workers.c
src_libnode_a_SOURCES += src/node/lane.c src/node/link.c src/node/netlink.c src/node/network.c src/node/nft.c src/node/rules.c
noinst_HEADERS += src/node/lane.h src/node/link.h src/node/netlink.h src/node/nft.h src/node/rules.h
src_libnode_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS) $(CRYPTO_CFLAGS) $(SECCOMP_CFLAGS)
NODE_LIBS = src/libnode.a $(H1_LIBS) $(SECCOMP_LIBS)
