# Files for the web servers, installed as they are; `render` fills them in.
httpdconfdir = $(pkgdatadir)/httpd-conf
dist_httpdconf_DATA = %D%/nginx.conf %D%/nginx-main.conf %D%/nginx-tls.conf %D%/lighttpd.conf %D%/lighttpd-main.conf %D%/lighttpd-tls.conf \
	%D%/apache.conf %D%/apache-main.conf %D%/apache-tls.conf %D%/apache-cgi.conf
dist_httpdconf_SCRIPTS = %D%/render
httpderrorsdir = $(httpdconfdir)/errors
dist_httpderrors_DATA = %D%/errors/400.html %D%/errors/401.html %D%/errors/403.html %D%/errors/404.html %D%/errors/405.html \
	%D%/errors/408.html %D%/errors/411.html %D%/errors/413.html %D%/errors/414.html %D%/errors/415.html %D%/errors/416.html \
	%D%/errors/417.html %D%/errors/429.html %D%/errors/431.html %D%/errors/500.html %D%/errors/501.html %D%/errors/502.html \
	%D%/errors/503.html %D%/errors/504.html %D%/errors/505.html
