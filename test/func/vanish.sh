#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# vanish.sh: the peer's host stands still for longer than every retry, gets another address, dies.
# test/vm/pair runs it in two guests: servers in the first, clients in the second, which gives the
# orders. Each prints its results.

# shellcheck source=meet.sh
. "$(dirname -- "$(readlink -f -- "$0")")/meet.sh"

moved_address=10.77.0.9
ends='the connection broke: .*|the peer ended the connection|the peer did not acknowledge: .*'

# The kernel gives up a TCP connection, of soft-iWARP, after some seconds instead of 15 minutes.
echo 5 >/proc/sys/net/ipv4/tcp_retries2

# server_start OPTION...
server_start() {
	: >"$tmp/server.log"
	"$program" -s -P "$here" --wait 600 "$@" >"$tmp/server.log" 2>&1 & # the last --wait counts
	server=$!
	until_line "$tmp/server.log" waiting "$server"
}

# client_start ADDRESS OPTION...
client_start() {
	: >"$tmp/client.log"
	"$program" -P "$here" -h "$1" --wait 600 "${@:2}" >"$tmp/client.log" 2>&1 &
	client=$!
}

# told LOG CASE: the test FAILED, because the connection has ended: one cause and no echo
told() {
	local rc=0

	grep -Eq "^[0-9]* Error: ($ends)\$" "$tmp/$1.log" || rc=1
	[[ $(grep -c '^[0-9]* Error: ' "$tmp/$1.log") == 1 ]] || rc=1
	grep -q FAILED "$tmp/$1.log" || rc=1
	report $rc "$2"
}

# pinging ADDRESS SECONDS OPTION...: begins pings for some time; patience for one is twice as long
pinging() {
	if ((DAT_TEST_END == 0)); then
		server_start --time "${@:2}"
		meet "$1"
	else
		meet "$1"
		client_start "$1" --time "${@:2}"
		until_line "$tmp/client.log" 'Size of' "$client"
	fi
}

# stands_still: the client notices that the first guest does, and the server that the client has
stands_still() {
	pinging "$DAT_TEST_ADDR0" 1800
	if ((DAT_TEST_END)); then
		echo 'pair: stop'
		wait "$client"
		told client 'the client is told: the host of the server stands still'
		echo 'pair: go on'
	else
		wait "$server"
		told server 'the server is told: its host has stood still'
	fi
}

# moves: the first guest gets another address. Over RDMA only those are told who have sent something
# that nobody acknowledges, and that may be either side, so both have some patience only.
moves() {
	local rc=0

	pinging "$DAT_TEST_ADDR0" 20 --wait 5
	if ((DAT_TEST_END)); then
		wait "$client" && rc=1
		report $rc 'the client gives up: the host of the server gets another address'
	else
		until_line "$tmp/server.log" 'Size of' "$server"
		ip address del "$DAT_TEST_ADDR0/24" dev "$interface"
		ip address add "$moved_address/24" dev "$interface"
		wait "$server" && rc=1
		report $rc 'the server gives up: its host gets another address'
	fi
}

# dies
dies() {
	local rc=0

	pinging "$moved_address" 1800
	if ((DAT_TEST_END == 0)); then
		wait "$server" # until this host dies
		return
	fi
	echo 'pair: kill'
	wait "$client"
	told client 'the client is told: the host of the server dies'
	client_start "$moved_address" --wait 15
	wait "$client"
	grep -Eq '^[0-9]* Error: .*(answer|reach)' "$tmp/client.log" || rc=1
	report $rc 'a connection to a dead host is refused'
}

# passes ADDRESS CASE: both are usable again
passes() {
	local rc=0

	if ((DAT_TEST_END == 0)); then
		server_start
		meet "$1"
		wait "$server" || rc=1
		report $rc "the server passes: $2"
	else
		meet "$1"
		client_start "$1"
		wait "$client" || rc=1
		report $rc "the client passes: $2"
	fi
}

echo "1..$((4 + 2 * DAT_TEST_END))"
program dtest
stands_still
passes "$DAT_TEST_ADDR0" 'its host goes on'
moves
passes "$moved_address" 'at the new address'
dies
