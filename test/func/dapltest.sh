#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# dapltest on the device: a server with clients of every mode, the modes of one process, and what
# ends a run early.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may run scripts with another shell
# shellcheck source=ends.sh
. "$(dirname -- "$(readlink -f -- "$0")")/ends.sh"

program dapltest

# with $address_space kB, or as much as there is
dapltest() { (ulimit -v "${address_space:-unlimited}" && timeout -k 5 3600 "$program" "$@"); }

# start NAME ARG...: in the background, with its output in NAME.log; its process is $started
start() {
	: >"$tmp/$1.log"
	"$program" "${@:2}" >"$tmp/$1.log" 2>&1 &
	started=$!
}

start_server() {
	start server -T S -D end0
	server=$started
	until_line "$tmp/server.log" 'Service Point Ready - end0' "$server"
}

client() { # MODE ARG...
	dapltest -T "$1" -s "$DAT_TEST_ADDR0" -D end1 "${@:2}" \
		>"$tmp/client.log" 2>"$tmp/errors.log"
}

# passes WORDS ARG...: the client passes, has one line with WORDS, and the server goes on
passes() {
	local rc=0 ready

	ready=$(grep -c 'Service Point Ready' "$tmp/server.log")
	client "${@:2}" || rc=1
	[[ $(grep -c -e "$1" "$tmp/client.log") == 1 && ! -s $tmp/errors.log ]] || rc=1
	! grep -q -e FAIL -e rror "$tmp/client.log" || rc=1
	until_line "$tmp/server.log" 'Service Point Ready' "$server" $((ready + 1))
	report $rc "dapltest -T ${*:2}"
}

# alone WORDS N ARG...: passes without a peer, with N lines of WORDS
alone() {
	local rc=0

	dapltest "${@:3}" >"$tmp/client.log" 2>"$tmp/errors.log" || rc=1
	[[ $(grep -c -e "$1" "$tmp/client.log") == "$2" ]] || rc=1
	# the test of unknown names is told that there is none
	! grep -qv '^libdat.*: nosuchname: .* has no such name; it has' "$tmp/errors.log" || rc=1
	report $rc "dapltest ${*:3}: $2 x $1"
}

# refuses WORDS ARG...: ends with status 1 and WORDS in the first line on standard error
refuses() {
	local rc=0

	dapltest "${@:2}" >"$tmp/client.log" 2>"$tmp/errors.log"
	[[ $? == 1 ]] || rc=1
	head -n 1 "$tmp/errors.log" | grep -q -e "$1" || rc=1
	report $rc "dapltest ${*:2}: $1"
}

# start_long: a client that works until something ends it; returns when it does
start_long() {
	start client -T T -s "$DAT_TEST_ADDR0" -D end1 -d -i 1000000000 -t 2 \
		client SR 256 server SR 256
	until_line "$tmp/client.log" 'begins' "$started" 2
}

default_port=${edition:+62000}
default_port=${default_port:-45278}
started='' server=''
# a run may be over within a millisecond
statistics='Total WQE\|enough time has elapsed'
echo 1..32
start_server
passes "$statistics" T -i 50 client SR 256 server RW 4096 server SR 256
passes "$statistics" T -i 50 client SR 256 server RR 4096 server SR 256
passes "$statistics" T -i 20 -V client SR 4000 server SR 1 client RW 70000 server RR 4097 \
	client RR 100 server RW 64
passes "$statistics" T -i 20 -V -P -t 2 -w 2 client SR server SR server RW
passes "$statistics" T -i 20 -V -Q -w 3 client SR 3000 2 server SR client RW 64 4
passes "$statistics" T -i 20 -r -t 2 -w 4 client SR server SR
passes "$statistics" T -i 20 client SR 10 -f server SR 10 -f client SR 10 server SR 9
passes 'raw: RW, 200, 4096, 2,' P -i 200 RW 4096 2
passes 'raw: RR, 200, 4096, 1, 4,' P -i 200 -m p -p 4 RR

refuses "port $default_port is taken by another server" -T S -D end0
start other -T S -D end0 -n 0
until_line "$tmp/other.log" 'Service Point Ready' "$started"
port=$(sed -n 's/^Dapltest: Service Point Port - //p' "$tmp/other.log")
read -ra command < <(sed -n "s/^Dapltest: Client - dapltest$edition //p" "$tmp/other.log")
dapltest "${command[@]}" >"$tmp/client.log" 2>"$tmp/errors.log" &&
	[[ ${command[*]} == "-T P -s $DAT_TEST_ADDR0 -D end0 -n $port RW" ]]
report $? 'a server at a port of its own prints the command of a client that passes'
client Q -n "$port" && wait "$started"
report $? 'and is ended there'

start_long
kill -9 "$started"
wait "$started" 2>/dev/null
until_line "$tmp/server.log" 'the test of this client failed' "$server"
grep -q 'the test of this client failed' "$tmp/server.log"
report $? 'a client that dies ends its test at the server'
start_long
kill -TERM "$started"
wait "$started"
[[ $? == 1 ]] && grep -q interrupted "$tmp/client.log"
report $? 'an interrupted client ends with a message'
until_line "$tmp/server.log" 'the test of this client failed' "$server" 2
passes "$statistics" T -i 10 client SR server SR # all the same
client Q
report $? 'dapltest -T Q'
wait "$server"
[[ $? == 1 && $(grep -c 'DT_cs_Server (end0):  Exiting.' "$tmp/server.log") == 1 ]]
report $? 'a server exits with 1 if a test of it has failed'

start_server
start_long
kill -9 "$server"
wait "$server" 2>/dev/null
wait "$started"
[[ $? == 1 ]] && grep -q 'completion #0 error: DAT_DTO_ERR_' "$tmp/client.log"
report $? 'a server that dies ends the test at the client'
start_server
start_long
kill -TERM "$server"
wait "$server"
[[ $? == 1 ]] && grep -q interrupted "$tmp/server.log"
report $? 'an interrupted server ends with a message'
wait "$started"
[[ $? == 1 ]]
report $? 'and so does its client'
start_server
client Q
wait "$server"
report $? 'a server that had no failure exits with 0'

refuses "no program of DAT listens at $DAT_TEST_ADDR0 port $default_port" \
	-T T -s "$DAT_TEST_ADDR0" -D end1 client SR server SR
refuses "^dapltest$edition: this provider does not have this quality of service" \
	-T Q -s "$DAT_TEST_ADDR0" -D end1 -R HT
refuses 'nosuchhost' -T Q -s nosuchhost.invalid -D end1

for family in hwconn:4 endpoint:3 pz:3 mem:5 connmgt:2 queryinfo:18; do
	alone 'Result: PASS' "${family#*:}" -T F -D end0 -f "${family%:*}"
done
# the largest region is 1 GiB, in a guest 256 MiB: the system would need many seconds for half of
# its memory; with the address sanitizer there must be no limit
enough=2000000
! in_guest || enough=560000
address_space=$enough dapltest --version >/dev/null 2>&1 || enough=unlimited
address_space=$enough alone 'LimitTest: ' 10 -T L -D end0 -m 50
alone 'LimitTest: .*: 12$' 9 -T L -D end0 -m 12 -w 3 limit_pz limit_cno limit_evd limit_ep \
	limit_psp limit_lmr limit_rpost
