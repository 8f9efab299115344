# Examples for a machine with systemd, installed beside the web servers' files; docs/install.md says how to use them.
systemdexdir = $(pkgdatadir)/systemd
dist_systemdex_DATA = %D%/hutch-node.service %D%/hutch-node.socket %D%/hutch-reaper.service %D%/hutch-relay.service %D%/hutch-fcgi@.service \
	%D%/hutch-fcgi@.socket
