#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# link_local.sh: two hosts that have no addresses but IPv6's own, which mean something on one link
# only. test/vm/pair runs it in two guests: servers in the first, clients in the second. Each prints
# its results.

# shellcheck source=meet.sh
. "$(dirname -- "$(readlink -f -- "$0")")/meet.sh"

# addresses follow from the interfaces' link addresses; a new one is tentative for some seconds
own=fe80::ff:fe00:$((DAT_TEST_END + 1)) first=fe80::ff:fe00:1
until ip -6 address show dev "$interface" -tentative | grep -q "$own"; do sleep 0.1; done
for name in "number $own" "scoped $own%$interface"; do
	echo "${name% *} u1.2 nonthreadsafe default $build/udapl/.libs/libdaplcma.so dapl.1.2" \
		"\"${name#* } 0\" \"\""
done >>"$DAT_OVERRIDE"

# dtest_between NAME ADDRESS: this end's name in dat.conf, and how the client calls the server
dtest_between() {
	local rc=0 server

	if ((DAT_TEST_END == 0)); then
		: >"$tmp/dtest.log"
		"$program" -s -P "$1" --wait 600 >"$tmp/dtest.log" 2>&1 &
		server=$!
		until_line "$tmp/dtest.log" waiting "$server"
		meet "$DAT_TEST_ADDR0"
		wait "$server" || rc=1
	else
		meet "$DAT_TEST_ADDR0"
		"$program" -P "$1" -h "$2" --wait 600 >"$tmp/dtest.log" 2>&1 || rc=1
	fi
	report $rc "dtest between IAs at link-local addresses (${1}), to $2"
}

echo 1..4
program dtest
for name in scoped number; do
	for address in "$first%$interface" "$first"; do
		dtest_between "$name" "$address"
	done
done
