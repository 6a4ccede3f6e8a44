#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The test programs of dapl2-utils, unmodified, over our libdat2 and our providers, judged by their
# output. On a device they also run with one of the two of libdapl2, which they were written for,
# and between a side of libdapl2 and a side of ours, in both roles.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may run scripts with another shell
# shellcheck source=ends.sh
. "$(dirname -- "$(readlink -f -- "$0")")/ends.sh"

for tool in dtest dtestx dtestcm dtestsrq dapltest; do
	grep -qs libdat2 "/usr/bin/$tool" || {
		echo "1..0 # SKIP there is no $tool of dapl2-utils"
		exit 0
	}
done
their_provider=$(echo /usr/lib/*/libdaplofa.so.2)
our_provider=$(sed -n "s/^end0 u2.0.* \(\/[^ ]*\) .*/\1/p" "$DAT_OVERRIDE")

# What a side is: its registry, then its provider, each "our" or "their". Both sides have the name
# end0, because a client of dtest takes the server's; a client's is on the second interface.
# side SIDE ROLE: a dat.conf for it, as $conf
side() {
	local provider=${1#* }_provider line=1

	[[ $2 == server ]] || line=2
	conf=$tmp/${1/ /-}.$2
	grep ' u2.0 ' "$DAT_OVERRIDE" | sed -n "${line}s,$our_provider,${!provider},; s/^end1/end0/
		${line}p" >"$conf"
}

# tool SIDE ROLE NAME OPTION...: runs it with its output in ROLE.log, a line at a time
tool() {
	local conf library=$build/dat/.libs

	side "$1" "$2"
	[[ $1 == our* ]] || library=
	DAT_OVERRIDE=$conf LD_LIBRARY_PATH=$library timeout -k 5 600 \
		stdbuf -oL "/usr/bin/$3" "${@:4}" >"$tmp/$2.log" 2>&1
}

# until_listening PROCESS: returns when the TCP port 15828 listens, by which two of the tools begin
until_listening() {
	until grep -q ':3DD4 0*:0000 0A' /proc/net/tcp /proc/net/tcp6 ||
		! kill -0 "$1" 2>/dev/null; do
		read -rt 0.02 -u "$idle" || :
	done
}

# serve SIDE WORDS NAME OPTION...: a server in the background, as $server; returns when it has said
# WORDS, or if there are none when the TCP port listens
serve() {
	: >"$tmp/server.log"
	tool "$1" server "${@:3}" &
	server=$!
	if [[ -n $2 ]]; then
		until_line "$tmp/server.log" "$2" $server
	else
		until_listening $server
	fi
}

# passes NAME WORDS...: server and client have ended well, and both have said each of the WORDS
passes() {
	local rc=0 log

	tool "$client_side" client "${client[@]}" || rc=1
	wait "$server" || rc=1
	for log in "$tmp"/{server,client}.log; do
		for words in "${@:2}"; do grep -q -e "$words" "$log" || rc=1; done
		! grep -q -e ERR -e FAIL "$log" || rc=1
	done
	report $rc "$1${between:+, $between}"
}

# sides SERVER CLIENT: what the next ones run on, and how the names of results tell it
sides() {
	server_side=$1 client_side=$2
	between="$1 server, $2 client"
	[[ $1 != "$2" ]] || between="$1"
	between=${between//our our/ours} between=${between//their their/libdapl2\'s}
	between=${between/our their/our registry, their provider}
	between=${between/their our/their registry, our provider}
	[[ $between != ours ]] || between=
}

run_dtest() {
	local options=(-P end0 -b 4096 -B 10 "$@")

	serve "$server_side" '' dtest "${options[@]}"
	client=(dtest -h "$DAT_TEST_ADDR0" "${options[@]}")
	passes "dtest${*:+ $*}" 'DAPL Test Complete. PASSED' 'RDMA READ DATA' \
		'Message PingPong: (100 x'
}
run_dtestcm() {
	local options=(-P end0 -c 20 -b 5)

	serve "$server_side" '' dtestcm "${options[@]}"
	client=(dtestcm -h "$DAT_TEST_ADDR0" "${options[@]}")
	passes dtestcm 'ALL 20 CONNECTED on' 'DAPL Connection Test Complete'
}
run_dtestsrq() {
	serve "$server_side" 'server ready' dtestsrq -P end0 -c 3
	client=(dtestsrq -P end0 -h "$DAT_TEST_ADDR0" -c 3)
	passes dtestsrq 'ALL 3 CONNECTED on' 'DAPL RC SRQ Test Complete'
}

# What dtestx says of the provider of a side, which is asked once: a guest takes seconds for that.
declare -A attributes
# has SIDE ATTRIBUTE: the side's provider says so
has() {
	[[ -n ${attributes[$1]:-} ]] || {
		tool "$1" client dtestx -q -P end0
		attributes[$1]=$(cat "$tmp/client.log")
	}
	[[ ${attributes[$1]} == *"$2=TRUE"* ]]
}

# with_extensions NAME: true if the providers of both sides have any; else the case is skipped
with_extensions() {
	local side

	for side in "$server_side" "$client_side"; do
		has "$side" DAT_EXTENSION_INTERFACE || {
			report 0 "$1${between:+, $between} # SKIP a provider without extensions"
			return 1
		}
	done
}
# A client may connect before its server listens, which TCP refuses at once.
run_dtestx() {
	[[ $DAT_TEST_DEV != tcp ]] || {
		report 0 "dtestx${between:+, $between} # SKIP its client may come before its server"
		return
	}
	with_extensions dtestx || return
	serve "$server_side" '' dtestx -P end0
	client=(dtestx -P end0 -h "$DAT_TEST_ADDR0")
	passes dtestx 'immed/atomic test PASSED'
}
# Writes of which the last one has immediate data, of the tool's own size but in a guest, which also
# needs minutes for its own number of them, a thousand.
run_dtest_immed() {
	local options=(-P end0 -w -b 4194304 -B 10)

	! in_guest || options=(-P end0 -w -b 65536 -B 10)
	with_extensions 'dtest -w' || return
	serve "$server_side" '' dtest "${options[@]}"
	client=(dtest -h "$DAT_TEST_ADDR0" "${options[@]}")
	passes 'dtest -w' 'DAPL Test Complete. PASSED' 'RDMA write (bi-direction)'
}
# Writes whose last byte is polled for in memory.
run_dtest_polled() {
	local options=(-P end0 -W -D -b 4096 -B 20)

	serve "$server_side" '' dtest "${options[@]}"
	client=(dtest -h "$DAT_TEST_ADDR0" "${options[@]}")
	passes 'dtest -W -D' 'DAPL Test Complete. PASSED' 'RDMA write PingPong: (20 x'
}
# Its query has the attributes that dat2(7) names, over libfabric one more, each with a value.
query_dtestx() {
	local rc=0 named=16

	[[ $DAT_TEST_DEV != tcp && $DAT_TEST_DEV != ofi-* ]] || named=17
	tool 'our our' client dtestx -q -P end0 || rc=1
	grep -q "num_attrs = $named\$" "$tmp/client.log" || rc=1
	[[ $(grep -c 'Attribute\[[0-9]*\] [DO][A-Z_]*=[^ ]' "$tmp/client.log") == \
		"$named" ]] || rc=1
	report $rc 'dtestx -q prints the named attributes'
}

# Datagrams: both sides connect to each other.
run_datagrams() {
	has "$server_side" DAT_IB_UD || {
		report 0 'dtestx -u # SKIP a device without datagrams'
		return
	}
	serve "$server_side" '' dtestx -u -s -P end0 -h "$DAT_TEST_ADDR1"
	client=(dtestx -u -c -P end0 -h "$DAT_TEST_ADDR0")
	passes 'dtestx -u' 'UD test PASSED'
}

# the transfers of dapltest, and the end of its server
run_dapltest() {
	serve "$server_side" 'Service Point Ready - end0' dapltest -T S -D end0
	for options in 'T -i 20 -V client SR 256 server RW 4096 server SR 256' \
		'T -i 10 -t 2 -w 2 -V client SR 256 server RR 4096 server SR 256' \
		'T -i 10 -r client SR server SR' 'T -i 10 -P client SR server SR' \
		'P -i 50 RW 4096 2' Q; do
		local rc=0 mode=${options%% *} words

		# shellcheck disable=SC2086 # words
		tool "$client_side" client dapltest -T "$mode" -s "$DAT_TEST_ADDR0" -D end0 \
			${options#?} || rc=1
		grep -q 'End of Work -- Client Exiting' "$tmp/client.log" || rc=1
		! grep -qi -e fail -e error "$tmp/client.log" || rc=1
		case $mode in
		T) words='Total WQE\|not$' ;; # the run may be over within a tick of its clock
		P) words='raw: RW, 50, 4096, 2,' ;;
		Q) words='Quit_Cmd' ;;
		esac
		grep -q "$words" "$tmp/client.log" || rc=1
		report $rc "dapltest -T $options${between:+, $between}"
	done
	wait "$server" && grep -q 'DT_cs_Server (end0):  Exiting' "$tmp/server.log"
	report $? "the server of dapltest has ended${between:+, $between}"
}

# alone CASES RESULT OPTION...: dapltest without a peer has so many lines that end so
alone() {
	local rc=0

	tool "$server_side" client dapltest "${@:3}" -D end0 || rc=1
	[[ $(grep -c -e "$2" "$tmp/client.log") == "$1" ]] || rc=1
	! grep -q 'Result: FAIL' "$tmp/client.log" || rc=1
	report $rc "dapltest ${*:3}: $1 x $2${between:+, $between}"
}
# The tool does not do its query of a connection request.
functions() {
	for family in hwconn:4 endpoint:3 pz:3 mem:5 connmgt:2 queryinfo:17; do
		alone "${family#*:}" 'Result: PASS' -T F -f "${family%:*}"
	done
}

# together SERVER CLIENT CASE...: cases of conform2, whose one process has end0 by the provider of
# SERVER and end1 by that of CLIENT, below our registry
together() {
	local conf=$tmp/together.conf first=${1}_provider second=${2}_provider case

	sed "/ u1.2 /d; /^end0/s,$our_provider,${!first},; /^end1/s,$our_provider,${!second}," \
		"$DAT_OVERRIDE" >"$conf"
	for case in "${@:3}"; do
		DAT_OVERRIDE=$conf "$build/test/conform/conform2" --ia end1 --server end0 "$case" \
			>"$tmp/conform.log" 2>&1
		report $? "$case, $1 server, $2 client"
	done
}

# libdapl2's provider is over verbs, and its connections those of InfiniBand
with_theirs=
[[ $DAT_TEST_DEV != rxe || ! -e $their_provider ]] || with_theirs=1
echo "1..$((with_theirs ? 45 : 23))"
sides 'our our' 'our our'
# 128 KiB for an endpoint that was created for transfers of 64 KiB
run_dtest -b 131072
run_dtest -c
run_dtest -p
run_dtest_immed
run_dtest_polled
query_dtestx
run_dtestx
run_datagrams
run_dtestcm
run_dtestsrq
run_dapltest
functions
if [[ -n $with_theirs ]]; then
	sides 'our their' 'our their'
	run_dtest
	run_dtestcm
	sides 'their our' 'their our'
	run_dtest
	run_dtestx
	run_dtestcm
	run_dtestsrq
	run_dapltest
	sides 'their their' 'our our'
	run_dtest
	run_dtestx
	run_dtestcm
	sides 'our our' 'their their'
	run_dtest
	run_dtestx
	run_dtestcm
	together their their nine_queries_return_the_ia_of_the_consumer
	together our their a_reject_brings_its_private_data
	together their our a_reject_brings_its_private_data
fi
