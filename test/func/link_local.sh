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

# invites: the server's command for a client names no interface of the server's host
invites() { ((DAT_TEST_END)) || grep -q " Client: .* -h $first " "$tmp/dtest.log"; }

echo 1..4
for name in scoped number; do
	for address in "$first%$interface" "$first"; do
		dtest_between "$name" "$address" && invites
		report $? "dtest between IAs at link-local addresses ($name), to $address"
	done
done
