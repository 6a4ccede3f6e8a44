#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# datinfo --peer on the device: a server that waits is reached, and goes on to wait for its client;
# what is in the way is told by its state, in bounded time. Lines of both editions of DAT ask.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may run scripts with another shell
# shellcheck source=ends.sh
. "$(dirname -- "$(readlink -f -- "$0")")/ends.sh"

program datinfo
datinfo=$program
program dapltest
dapltest=$program
program dtest
dtest=$program
a=$DAT_TEST_ADDR0 port=45480

# asks STATES STATUS OPTION...: datinfo has this exit status, and prints these states of its lines
asks() {
	local status

	timeout -k 5 600 "$datinfo" "${@:3}" >"$tmp/datinfo.log" 2>&1
	status=$?
	[[ $status == "$2" && $(sed -n 's/^ *[0-9]* [^ ]* *[12]\.[02] \(.\{8\}\).*/\1/p' \
		"$tmp/datinfo.log" | sed 's/ *$//' | paste -sd ,) == "$1" ]]
}

# serve PROGRAM WORDS OPTION...: a server in the background, as $server; returns when it waits
serve() {
	: >"$tmp/server.log"
	timeout -k 5 600 "$1" "${@:3}" >"$tmp/server.log" 2>&1 &
	server=$!
	until_line "$tmp/server.log" "$2" $server
}

echo 1..13

serve "$dtest" waiting -P end0 --port $port --wait 300
asks reaches,reaches 0 --wait 60 --peer "$a:$port" end1
report $? 'a dtest that waits is reached, by both editions of DAT'
grep -Eq "reaches +$a port $port answered in [0-9.]+ ms, from [0-9.]+, [a-z0-9]+" \
	"$tmp/datinfo.log"
report $? 'address, port, time, source and interface are told'
asks reaches,reaches,reaches,reaches 0 --wait 60 --peer "$a:$port"
report $? 'without names all that open ask'
"$datinfo" --json --wait 60 --peer "$a:$port" end1 >"$tmp/datinfo.log"
[[ $(grep -Ec "\"state\": \"opens\", .*\"peer\": \{\"state\": \"reaches\", \"address\": \"$a\", \
\"source\": \"[0-9.]+\", \"usec\": [0-9]+\}" "$tmp/datinfo.log") == 2 ]]
report $? 'JSON has the same'
asks refused,refused 1 --wait 60 --peer "$a:$((port + 1))" end1
report $? 'a port where nobody listens is refused'
grep -q "^ *no program of DAT\|refused *no program of DAT listens at $a port $((port + 1))" \
	"$tmp/datinfo.log" && grep -q '^ *dtest there, over' "$tmp/datinfo.log"
report $? 'cause and remedy follow'

# the kernel, or the device, takes the request, and nobody answers
kill -STOP "$(sed -n '1s/ .*//p' "$tmp/server.log")"
asks silent,silent 1 --wait 2 --peer "$a:$port" end1
report $? 'a server that does not answer is silent'
kill -CONT "$(sed -n '1s/ .*//p' "$tmp/server.log")"
"$dtest" -P end1 -h "$a" --port $port --wait 120 >"$tmp/client.log" 2>&1
rc=$?
wait $server || rc=1
[[ $(grep -c PASSED "$tmp/server.log") == 1 ]] || rc=1
report $rc 'its client passes after all those questions'

serve "$dapltest" 'Service Point Ready' -T S -D end0 -n $port
asks reaches,reaches 0 --wait 60 --peer "$a:$port" end1
report $? 'a dapltest that waits is reached'
"$dapltest" -T Q -s "$a" -D end1 -n $port >"$tmp/client.log" 2>&1
rc=$?
wait $server || rc=1
report $rc 'it takes its client after the questions'

asks 'no route,no route' 1 --peer 255.255.255.255 end1
report $? 'an address that the kernel refuses has no route'
asks 'no host,no host' 1 --peer ::1 end1
report $? 'a host without an address of the family of the IA is told'
sed 's/"[^"]* [^"]*"/"none-such 0"/; s/^end/gone/' "$DAT_OVERRIDE" >"$tmp/gone.conf"
DAT_OVERRIDE=$tmp/gone.conf asks '' 1 --peer "$a" &&
	grep -q '^datinfo: no name opens' "$tmp/datinfo.log" &&
	DAT_OVERRIDE=$tmp/gone.conf asks unusable,unusable,unusable,unusable 1 --all --peer "$a"
report $? 'names that do not open are left out, unless --all is given'
