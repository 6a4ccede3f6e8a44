#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# dtest between two processes on the device: with every set of options both ends pass, what differs
# between them is said by both, and each common failure has its sentence. DTEST_TRANSFERS=1 leaves
# out what does not depend on the transport.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may run scripts with another shell
# shellcheck source=ends.sh
. "$(dirname -- "$(readlink -f -- "$0")")/ends.sh"

program dtest
# the program of the other edition
other_edition() {
	local edition program

	[[ $1 == 2 ]] && edition='' || edition=2
	program dtest
	other_program=$program
}
other_edition "$edition"

# Most of a run is waiting, so cases run at the same time, each with a port and a folder of its own.
at_once=8 started=0 port=''

# apart FUNCTION ARG...
apart() {
	local port=$((45300 + started)) count=$((started - 1)) tmp=$tmp/$started

	mkdir "$tmp"
	"$@"
}

# beside FUNCTION ARG...: one case, whose result in_order prints
beside() {
	((started < at_once)) || wait -n
	((++started))
	apart "$@" >"$tmp/$started.tap" 2>&1 &
}

# alike FUNCTION ARG...: a case of what dtest does alike over any transport
alike() { [[ -n ${DTEST_TRANSFERS:-} ]] || beside "$@"; }

in_order() {
	wait
	for ((count = 1; count <= started; count++)); do
		cat "$tmp/$count.tap"
	done
	count=$started
}

# dtest LOG OPTION...: with time-outs that a slow guest does not reach, unless there are others
dtest() {
	timeout -k 5 3600 "$program" --wait 120 ${port:+--port "$port"} "${@:2}" >"$tmp/$1.log" 2>&1
}

# server OPTION...: in the background, as $server; returns when it listens or has ended
server() {
	: >"$tmp/server.log"
	dtest server -P end0 -s "$@" &
	server=$!
	until_line "$tmp/server.log" waiting $server
}

client() { dtest client -P end1 -h "$DAT_TEST_ADDR0" "$@"; }

# pass: other scripts look for these words
pass() {
	[[ $(grep -c waiting "$tmp/server.log") == 1 ]] || return
	for log in "$tmp/server.log" "$tmp/client.log"; do
		[[ $(grep -c PASSED "$log") == 1 ]] || return
		! grep -q -e ERR -e FAIL "$log" || return
	done
}

# both OPTION...: a server and a client with these options pass
both() {
	local rc=0

	server "$@"
	client "$@" || rc=1
	wait $server || rc=1
	pass || rc=1
	report $rc "dtest $*"
}

# posted_before LOG RECEIVES SENDS: so many receives are posted before that send, and none after it
posted_before() {
	awk -v receives="$2" -v sends="$3" '
		$2 == "dat_ep_post_recv" && NF == 2 && ++posted && sent >= sends { late = 1 }
		$2 == "dat_ep_post_send" && NF == 2 { sent++ }
		END { exit late || posted != receives || sent < sends }' "$tmp/$1.log"
}

# No send may meet an endpoint without a receive, which iWARP does not forgive: the server's third
# message lets the client send its pings, and the client's first ping lets the server send its own.
receives() {
	local rc=0

	server -v -B 7
	client -v -B 7 || rc=1
	wait $server || rc=1
	pass || rc=1
	posted_before server 10 3 || rc=1
	posted_before client 10 4 || rc=1
	report $rc 'receives are posted before the message that lets the peer send'
}

# rows NUMBER COLUMNS OPTION...: both pass, and the client prints so many sizes
rows() {
	local rc=0

	server "${@:3}"
	client "${@:3}" || rc=1
	wait $server || rc=1
	pass || rc=1
	[[ $(awk -v columns="$2" '$1 ~ /^[0-9]+$/ && $2 ~ /^[0-9]+$/ && NF == columns' \
		"$tmp/client.log" | wc -l) == "$1" ]] || rc=1
	report $rc "dtest ${*:3}: $1 sizes"
}

# timed: the time ends the RDMA writes, not the number of the burst, which is shorter than a second
timed() {
	local rc=0 written

	server --time 1 -w -b 9 -B 2 -S 3
	client --time 1 -w -b 9 -B 2 -S 3 || rc=1
	wait $server || rc=1
	pass || rc=1
	written=$(awk '$1 == 9 && NF == 3 { print $2 }' "$tmp/client.log")
	((written > 2)) || rc=1
	report $rc "dtest --time: $written writes, more than those of a burst"
}

# table FORMAT: the client's standard output has a table of four sizes, and nothing else
table() {
	local rc=0 number='[0-9]+(\.[0-9]+)?' row

	server -a -b 5 -B 3 "--$1"
	timeout -k 5 3600 "$program" --wait 120 --port "$port" -P end1 -h "$DAT_TEST_ADDR0" \
		-a -b 5 -B 3 "--$1" >"$tmp/table" 2>"$tmp/client.log" || rc=1
	wait $server || rc=1
	pass || rc=1
	if [[ $1 == csv ]]; then
		[[ $(head -n 1 "$tmp/table") == bytes,count,min_usec,*,read_mb_per_s ]] || rc=1
		[[ $(cut -d , -f 1,2 "$tmp/table" | tail -n +2 | xargs) == '1,3 2,3 4,3 5,3' ]] ||
			rc=1
		[[ $(grep -Ec "^($number,){8}$number\$" "$tmp/table") == 4 ]] || rc=1
	else
		row="^  \{\"bytes\": [1245], \"count\": 3(, \"[a-z0-9_]+\": $number){7}\},?\$"
		[[ $(grep -Ec "$row" "$tmp/table") == 4 ]] || rc=1
		[[ $(tail -n 1 "$tmp/table") == '], "passed": true }' ]] || rc=1
		[[ $(wc -l <"$tmp/table") == 7 ]] || rc=1
	fi
	report $rc "dtest --$1: a table of four sizes alone is on the standard output"
}

# invitation: the command that the server prints is that of a client that passes
invitation() {
	local rc=0 command

	server -a -b 2 -B 3
	command=$(sed -n 's/^[0-9]* Client: //p' "$tmp/server.log")
	[[ $command == "dtest$edition -P end0 -h $DAT_TEST_ADDR0 -n $port -a -b 2 -B 3" ]] || rc=1
	grep -q "^[0-9]* Server listens at $DAT_TEST_ADDR0 port $port\$" "$tmp/server.log" || rc=1
	read -ra command <<<"$command"
	dtest client "${command[@]:1}" || rc=1
	wait $server || rc=1
	pass || rc=1
	report $rc 'the server prints where it listens, and the command of a client that passes'
}

# says LOG SENTENCE: one line "PID Error: SENTENCE", and the test FAILED
says() {
	[[ $(grep -Ec "^[0-9]* Error: ($2)\$" "$tmp/$1.log") == 1 ]] &&
		grep -q FAILED "$tmp/$1.log"
}

# fail NAME SERVER-SENTENCE CLIENT-SENTENCE SERVER-OPTION... -- CLIENT-OPTION...: both fail and say
# why; of an empty sentence only the status counts
fail() {
	local name=$1 server_says=$2 client_says=$3 rc=0 options=()

	shift 3
	while [[ $1 != -- ]]; do
		options+=("$1")
		shift
	done
	server "${options[@]}"
	client "${@:2}"
	[[ $? == 1 ]] || rc=1
	wait $server
	[[ $? == 1 ]] || rc=1
	[[ -z $server_says ]] || says server "$server_says" || rc=1
	[[ -z $client_says ]] || says client "$client_says" || rc=1
	report $rc "$name"
}

# refuses STATUS SENTENCE OPTION...: dtest alone exits with STATUS, and says so
refuses() {
	local rc=0

	rm -f "$tmp"/*.log
	dtest client "${@:3}"
	[[ $? == "$1" ]] || rc=1
	[[ $1 == 244 ]] || says client "$2" || rc=1
	! grep -q PASSED "$tmp/client.log" || rc=1
	report $rc "dtest ${*:3}: status $1"
}

a=$DAT_TEST_ADDR0
# these wait longest
# gives_up SECONDS: a client waits so long for a server that has its request, and is stopped before
# it accepts. False: one of them was too slow for that.
gives_up() {
	local client pid in_time=1

	server -v -d $((3 * $1))
	: >"$tmp/client.log"
	client --wait "$1" &
	client=$!
	until_line "$tmp/server.log" 'dat_cr_query done' $client
	pid=$(sed -n '1s/ .*//p' "$tmp/server.log")
	kill -STOP "$pid"
	while [[ -e /proc/$pid/stat && $(<"/proc/$pid/stat") != *') T '* ]]; do
		read -rt 0.02 -u "$idle" || :
	done
	grep -q 'dat_cr_query done' "$tmp/server.log" &&
		! grep -q dat_cr_accept "$tmp/server.log" || in_time=
	wait $client
	client_status=$?
	[[ -n $in_time ]] || kill -KILL "$pid"
	kill -CONT "$pid"
	wait $server
	server_status=$?
	[[ -n $in_time ]]
}
too_late() {
	local gave_up='the client gave up before the connection was made'
	local wait=1 client_status server_status rc=0

	until gives_up $wait; do wait=$((2 * wait)); done
	[[ $client_status == 1 && $server_status == 1 ]] || rc=1
	says client "no answer from $a port $port within $wait s" || rc=1
	# on iWARP the connection may stand for a moment
	says server "$gave_up|the peer ended the connection" || rc=1
	report $rc 'a server that accepts too late is given up'
}
# the port that dtest takes without being told
taken() {
	local port='' rc

	server --wait 600
	dtest client -P end0
	rc=$(($? != 1))
	says client 'port 45248 is taken by another server' || rc=1
	client || rc=1
	wait $server || rc=1
	report $rc 'a port that is taken is told, and its server goes on'
}
old_server() {
	local rc

	server --old
	client
	rc=$?
	wait $server || rc=1
	pass || rc=1
	report $rc 'a client passes with a server that says nothing about its parameters'
}
old_client() {
	local rc

	server
	client --old
	rc=$?
	wait $server || rc=1
	pass || rc=1
	report $rc 'a server passes with a client that says nothing about its parameters'
}
# editions ROLE: a peer of the other edition of DAT has this role
editions() {
	local rc=0

	if [[ $1 == server ]]; then
		program=$other_program server
		client || rc=1
	else
		server
		program=$other_program client || rc=1
	fi
	wait $server || rc=1
	pass || rc=1
	report $rc "a $1 of the other edition of DAT passes"
}
# query: every attribute has a line, and those of DAT 2.0 that have names have theirs
query() {
	local rc=0 named=0 mode=0

	[[ -z $edition ]] || named=16
	dtest client -q -P end0 || rc=1
	[[ $(grep -c '^[0-9]* IA max_' "$tmp/client.log") == 24 ]] || rc=1
	[[ $(grep -c '^[0-9]* provider provider_specific_attr DAT_[A-Z_]*: ' "$tmp/client.log") \
		== "$named" ]] || rc=1
	[[ -z $edition || ($DAT_TEST_DEV != tcp && $DAT_TEST_DEV != ofi-*) ]] || mode=1
	[[ $(grep -c ' OFI_MR_MODE: FI_MR_' "$tmp/client.log") == "$mode" ]] || rc=1
	report $rc "dtest -q prints the attributes, $named of which have names"
}
# killed ROLE OPTION...: the peer prints one cause, and nothing that follows from it
killed() {
	local client rc=0 other=server victim

	[[ $1 == client ]] || other=client
	server -a -B 65535 "${@:2}" 2>/dev/null # bash would print how it ended
	: >"$tmp/client.log"
	client -a -B 65535 "${@:2}" 2>/dev/null &
	client=$!
	until_line "$tmp/client.log" Sizes $client
	until_line "$tmp/server.log" Sizes $server
	victim=$(sed -n '1s/ .*//p' "$tmp/$1.log")
	kill -9 "$victim"
	wait $client $server
	says $other "the peer ended the connection|the connection broke: .*" || rc=1
	[[ $(grep -c ' Error' "$tmp/$other.log") == 1 ]] || rc=1
	report $rc "dtest ${*:2}: a $1 that is killed is one cause, and has no echo"
}
# busy: a client of a server that has one is told, long before the test of that one is over
busy() {
	local rc victim

	server --time 1800
	: >"$tmp/client.log"
	client --time 1800 2>/dev/null & # bash would print how it ended
	until_line "$tmp/client.log" 'Size of' $!
	dtest second -P end1 -h "$DAT_TEST_ADDR0" --wait 60
	rc=$(($? != 1))
	says second "no program of DAT listens at $a port $port: .*; a server that has a client \
takes no other|the server at $a port $port refused the connection: it may have a client already" ||
		rc=1
	! grep -q -e FAILED -e PASSED "$tmp/client.log" || rc=1
	victim=$(sed -n '1s/ .*//p' "$tmp/client.log")
	kill -9 "$victim"
	wait
	report $rc 'a second client is told that the server may have one'
}
# the names that there are, and their file
unknown() {
	local rc=0

	dtest client -P nosuchname
	[[ $? == 1 ]] || rc=1
	says client 'dat.conf has no line for nosuchname' || rc=1
	[[ $(grep -c "^libdat.*: nosuchname: $DAT_OVERRIDE has no such name; it has end0, end1\$" \
		"$tmp/client.log") == 1 ]] || rc=1
	report $rc 'dtest -P nosuchname: status 1, and the names that there are'
}

echo 1..$((${DTEST_TRANSFERS:+-17} + 44))
beside too_late
beside taken
alike old_server
alike old_client
alike editions server
alike editions client
beside query
beside killed client -p
beside killed server
beside killed server -W
beside busy
alike table csv
alike table json
alike invitation
if in_guest; then
	# of two that poll one waits for the other's time slice
	beside rows 12 9 -a -W -p -b 1025 -B 2
	beside rows 17 9 -a -b 65536 -B 2
else
	beside rows 12 9 -a -W -p -b 1025 -B 12
	beside rows 23 9 -a -B 2
fi
beside both
beside both -c
beside both -p
beside both -c -p
beside receives
beside both -v
beside both -b 26 -B 1
beside both -B 50 -b 4096
beside both -w -D -t -u
beside both --port 45999
alike rows 1 9 --time 1 -b 7 -B 3
alike rows 1 9 --time 1 -W -p -b 1 -B 1
beside timed
beside rows 2 3 -a -w -b 2 -B 65 -S 32
beside rows 1 9 -a -c -b 1 -B 1
alike fail 'a size that differs is told by both' \
	'the client was started with -b 128 -B 10, this server with -b 64 -B 10' \
	'the server was started with -b 64 -B 10, this client with -b 128 -B 10' -- -b 128
alike fail 'a burst that differs is told by both' \
	'the client was started with -b 64 -B 10, this server with -b 64 -B 11' \
	'the server was started with -b 64 -B 11, this client with -b 64 -B 10' -B 11 --
alike fail 'a time that differs is told by both' \
	'the client was started with --time 1 -b 64 -B 5, this server with --time 2 -b 64 -B 5' \
	'the server was started with --time 2 -b 64 -B 5, this client with --time 1 -b 64 -B 5' \
	--time 2 -B 5 -- --time 1 -B 5
alike fail 'a kind of test that differs is told by both' \
	'the client was started with -b 64 -B 10, this server with -a -W -b 64 -B 10' \
	'the server was started with -a -W -b 64 -B 10, this client with -b 64 -B 10' \
	-a -W -b 64 -B 10 --
alike fail 'a server that knows no sizes is told from one that does' '' \
	'the server is an older dtest without -a' --old -- -a
alike fail 'a client that knows no sizes is told from one that does' \
	'the client is an older dtest without -w' '' -w -- --old
beside refuses 1 "no program of DAT listens at $a port 45250: start the server first, .*" \
	-P end1 -h "$a" -n 45250
beside refuses 1 'no client has come within 1 s' -P end0 --wait 1
alike unknown
alike refuses 244 '' -P end0 -b none
in_order
if in_guest; then
	ip link set "$DAT_TEST_IF1" down
	refuses 1 "what dat.conf has for end1 can't be used.*" -P end1
	grep -q "^lib.*: open $DAT_TEST_IF1: .* network interface.* is down$" "$tmp/client.log"
	report $? 'the provider says that an interface is down'
	# what the kernel has forgotten
	ip link set "$DAT_TEST_IF1" up
	ip route replace "$a" dev "$DAT_TEST_IF1" src "$DAT_TEST_ADDR1" table 102
	ip neighbour replace "$a" lladdr 02:00:00:00:00:01 dev "$DAT_TEST_IF1" nud permanent
else
	for what in tool provider; do
		report 0 "the $what tells an interface that is down # SKIP only in the guest"
	done
fi
DAT_TEST_NAMES=$("$program" --list 2>"$tmp/client.log")
rc=$?
for end in "end0.*$DAT_TEST_ADDR0" "end1.*$DAT_TEST_ADDR1"; do
	grep -q "^[0-9]* $end\$" <<<"$DAT_TEST_NAMES" || rc=1
done
report $rc 'dtest --list prints the address of each name'
