#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# dtest between two processes on the device: with every set of options both ends pass, and invalid
# options are refused.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may run scripts with another shell
# shellcheck source=ends.sh
. "$(dirname -- "$(readlink -f -- "$0")")/ends.sh"

# both OPTION...: a server and a client with these options pass
both() {
	local server rc=0

	rm -f "$tmp"/*.log
	timeout -k 5 600 "$build/dtest/dtest" -P end0 -s "$@" >"$tmp/server.log" 2>&1 &
	server=$!
	until grep -q waiting "$tmp/server.log"; do
		kill -0 $server 2>/dev/null || break
		read -rt 0.02 <> <(:) || :
	done
	# other scripts wait for this line
	[[ $(grep -c waiting "$tmp/server.log") == 1 ]] || rc=1
	timeout -k 5 600 "$build/dtest/dtest" -P end1 -h "$DAT_TEST_ADDR0" "$@" \
		>"$tmp/client.log" 2>&1 || rc=1
	wait $server || rc=1
	for log in "$tmp/server.log" "$tmp/client.log"; do
		[[ $(grep -c PASSED "$log") == 1 ]] || rc=1
		! grep -q -e ERR -e FAIL "$log" || rc=1
	done
	report $rc "dtest $*"
}

# refuses STATUS OPTION...: dtest exits with STATUS and an error message
refuses() {
	local rc=0

	rm -f "$tmp"/*.log
	timeout -k 5 600 "$build/dtest/dtest" "${@:2}" >"$tmp/out.log" 2>"$tmp/err.log"
	[[ $? == "$1" && -s $tmp/err.log ]] || rc=1
	! grep -q PASSED "$tmp/out.log" || rc=1
	report $rc "dtest ${*:2}: status $1"
}

echo 1..11
both
both -c
both -p
both -c -p
both -v
both -b 26 -B 1
both -B 50 -b 4096
refuses 244 -P end0 -b none
refuses 244 -P end0 -Z
refuses 1 -P nosuchname
refuses 1 -P end1 -h "$DAT_TEST_ADDR0" # there is no listener
