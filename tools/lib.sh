# shellcheck shell=bash disable=SC2154
# Shared by quickstart and runtests. Needs $log_dir for the output of long steps.

say() { printf '%s\n' "$*"; }
fail() { printf '\n%s: %s\n' "${0##*/}" "$1" >&2; shift; printf '  %s\n' "$@" >&2; exit 1; }

# long NAME TITLE COMMAND...: run a step with its output in $log_dir/NAME.log, telling every few seconds that it goes on.
# Answers the command's status.
long() {
	local name=$1 title=$2 start=$SECONDS next=10 status=0 pid
	shift 2
	printf '%s ...\n' "$title"
	set -m                         # a process group of its own, so that an interrupt ends all of it
	"$@" >"$log_dir/$name.log" 2>&1 </dev/null &
	pid=$!
	set +m
	trap 'kill -TERM -- "-$pid" 2>/dev/null; policy_off; exit 130' INT TERM
	while kill -0 "$pid" 2>/dev/null; do
		if (( SECONDS - start >= next )); then
			printf '    %d s: %s\n' $((SECONDS - start)) "$(tail -n 1 "$log_dir/$name.log" | tr -d '\r' | cut -c1-90)"
			next=$((next + 10))
		fi
		sleep 0.2
	done
	wait "$pid" || status=$?
	trap - INT TERM
	(( status != 0 )) || printf '    done, %d s\n' $((SECONDS - start))
	return "$status"
}

# The last lines of a step's output, for the message about its failure.
tail_of() { tail -n "${2:-15}" "$log_dir/$1.log" 2>/dev/null | sed 's/^/    | /' >&2; }

packages_of() {  # packages_of LIST GROUP...: the names of these groups
	local list=$1
	shift
	awk -v groups=" $* " '$1 !~ /^#/ && index(groups, " " $1 " ") { print $2 }' "$list"
}

packages_missing() {  # of the names on standard input
	while read -r p; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || printf '%s\n' "$p"
	done
}

policy=/usr/sbin/policy-rc.d
policy_ours() { grep -qs '^# hutch: no service is started' "$policy"; }
policy_off() { ! policy_ours || rm -f "$policy"; }
# apt starts no service while this stands. One that is there already stays as it is.
policy_on() {
	[ ! -e "$policy" ] || return 0
	printf '#!/bin/sh\n# hutch: no service is started while packages are installed\nexit 101\n' >"$policy"
	chmod 755 "$policy"
}

apt_twice() {
	apt-get "$@" && return 0
	printf 'trying once more\n'
	apt-get "$@"
}

apt_install() {
	apt_twice -q -o Dpkg::Use-Pty=0 -o Acquire::Retries=2 update || return 1
	apt_twice -q -y -o Dpkg::Use-Pty=0 -o Acquire::Retries=2 --no-install-recommends install "$@"
}

# install_packages LIST GROUP...: what is not there yet. What is installed is neither upgraded nor restarted.
install_packages() {
	local status=0 web=()
	mapfile -t missing < <(packages_of "$@" | packages_missing)
	(( ${#missing[@]} > 0 )) || return 0
	for p in "${missing[@]}"; do case $p in nginx | lighttpd) web+=("$p") ;; esac; done
	policy_on
	DEBIAN_FRONTEND=noninteractive long apt "Installing ${#missing[@]} packages" apt_install "${missing[@]}" || status=$?
	policy_off
	# A web server that came along only now is not to start with the machine: hutch starts its own.
	if (( ${#web[@]} > 0 )) && [ -d /run/systemd/system ]; then
		systemctl disable -q "${web[@]}" 2>/dev/null || :
	fi
	if (( status != 0 )); then
		tail_of apt
		fail "the packages could not be installed" "The whole output is in $log_dir/apt.log." \
			"Check the network and 'apt-get update', then run this again; what is installed stays."
	fi
}
