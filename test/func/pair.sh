#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# pair.sh [WIRE...]: dtest and dapltest between two guests, over a wire that turns bad. test/vm/pair
# runs it in both: the servers in the first, the clients in the second. Each prints its results.

# shellcheck source=meet.sh
. "$(dirname -- "$(readlink -f -- "$0")")/meet.sh"

# what netem does to all that each guest sends
wires=('' 'loss 0.1%' 'loss 1%' 'loss 5%' 'delay 25ms' 'delay 5ms reorder 25% 50%' 'duplicate 5%'
	'corrupt 1%' 'loss 1% delay 2ms duplicate 2% corrupt 0.5%')
((!$#)) || wires=("$@")

# spoil WIRE
spoil() {
	tc qdisc del dev "$interface" root 2>/dev/null
	# shellcheck disable=SC2086 # words
	[[ -z $1 ]] || tc qdisc add dev "$interface" root netem $1
}

# dapltest_over WIRE: the client passes, and the server tells no error
dapltest_over() {
	local rc=0

	if ((DAT_TEST_END)); then
		"$program" -T T -s "$DAT_TEST_ADDR0" -D "$here" -V -i 20 -t 2 -w 2 \
			client SR 4096 server SR 4096 client RW 20000 server RR 20000 \
			>"$tmp/dapltest.log" 2>&1 || rc=1
		meet "$DAT_TEST_ADDR0"
	else
		meet "$DAT_TEST_ADDR0"
		! grep -qi error "$tmp/server.log" || rc=1
	fi
	report $rc "dapltest over a wire with ${1:-nothing}"
	((DAT_TEST_END)) || : >"$tmp/server.log"
}

echo "1..$((2 * ${#wires[@]}))"
program dapltest
if ((DAT_TEST_END == 0)); then
	: >"$tmp/server.log"
	"$program" -T S -D "$here" >>"$tmp/server.log" 2>&1 &
	server=$!
	until_line "$tmp/server.log" 'Service Point Ready' "$server"
fi
for wire in "${wires[@]}"; do
	spoil "$wire"
	dtest_between "$here" "$DAT_TEST_ADDR0"
	report $? "dtest over a wire with ${wire:-nothing}"
	program dapltest
	dapltest_over "$wire"
done
spoil ''
if ((DAT_TEST_END)); then
	"$program" -T Q -s "$DAT_TEST_ADDR0" -D "$here" >"$tmp/quit.log" 2>&1
else
	wait "$server"
fi
