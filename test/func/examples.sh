#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# examples/rdma_write and examples/poll between the two interfaces of the device: both sides print
# what the other has written or sent; what cannot be is refused with one line.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may run scripts with another shell
# shellcheck source=ends.sh
. "$(dirname -- "$(readlink -f -- "$0")")/ends.sh"

examples=$build/examples

# address_of END: of its interface, as the kernel tells it
address_of() {
	local interface=DAT_TEST_IF${1#end}

	ip -o -4 address show dev "${!interface}" | sed -n 's,.* inet \([0-9.]*\)/.*,\1,p' |
		head -n 1
}

# writes SERVER CLIENT TEXT SEEN: the server finds SEEN in its memory
writes() {
	local server rc=0

	: >"$tmp/server.log"
	"$examples/rdma_write" "$1" >"$tmp/server.log" 2>&1 &
	server=$!
	until_line "$tmp/server.log" waiting "$server"
	timeout -k 5 3600 "$examples/rdma_write" "$2" "$(address_of "$1")" "$3" \
		>"$tmp/client.log" 2>&1 || { rc=1; kill "$server" 2>/dev/null; }
	wait "$server" || rc=1
	[[ $(tail -n 1 "$tmp/server.log") == "server: the client has written \"$4\"" ]] || rc=1
	[[ $(<"$tmp/client.log") == "client: has written \"$4\"" ]] || rc=1
	report $rc "rdma_write $1 $2, ${#3} bytes"
}

# chats SERVER CLIENT LEAVER: each side prints what the other gets on its standard input, in any
# order; the end of that of LEAVER, server or client, ends both
chats() {
	local server client to_server to_client rc=0

	mkfifo "$tmp/to_server" "$tmp/to_client"
	exec {to_server}<>"$tmp/to_server" {to_client}<>"$tmp/to_client"
	: >"$tmp/server.log"
	: >"$tmp/client.log"
	"$examples/poll" "$1" <"$tmp/to_server" >"$tmp/server.log" 2>&1 \
		{to_server}>&- {to_client}>&- &
	server=$!
	until_line "$tmp/server.log" ready "$server"
	timeout -k 5 3600 "$examples/poll" "$2" "$(address_of "$1")" <"$tmp/to_client" \
		>"$tmp/client.log" 2>&1 {to_server}>&- {to_client}>&- &
	client=$!
	echo 'said by the server' >&"$to_server"
	until_line "$tmp/client.log" 'said by the server' "$client"
	for n in 1 2 3; do
		echo "said by the client $n" >&"$to_client"
		until_line "$tmp/server.log" "said by the client $n" "$server"
	done
	# the other side's input stays open
	if [[ $3 == server ]]; then exec {to_server}>&-; else exec {to_client}>&-; fi
	wait "$client" || { rc=1; kill "$server" 2>/dev/null; }
	wait "$server" || rc=1
	exec {to_server}>&- {to_client}>&-
	rm "$tmp/to_server" "$tmp/to_client"
	[[ $(<"$tmp/client.log") == $'poll: ready\nsaid by the server' ]] || rc=1
	[[ $(sed 's/client .$/client/' "$tmp/server.log" | sort | uniq -c | xargs) == \
		'1 poll: ready 3 said by the client' ]] || rc=1
	report $rc "poll $1 $2, and the $3 leaves"
}

# refuses STATUS WORDS PROGRAM ARG...: prints one line, an error message with WORDS
refuses() {
	local rc=0

	timeout -k 5 3600 "$examples/$3" "${@:4}" >"$tmp/out.log" 2>"$tmp/err.log" </dev/null
	[[ $? == "$1" ]] || rc=1
	[[ ! -s $tmp/out.log && $(grep -vc -e ^libda -e ready "$tmp/err.log") == 1 ]] || rc=1
	grep -q -e "$2" "$tmp/err.log" || rc=1
	report $rc "${*:3}: status $1"
}

long=$(printf '%0300d' 7)
echo 1..12
writes end0 end1 'Hello, memory' 'Hello, memory'
writes end1 end0 '' ''
writes end0 end1 "$long" "${long:0:255}"
chats end0 end1 client
chats end1 end0 server
for program in rdma_write poll; do
	text=()
	[[ $program == poll ]] || text=(text)
	refuses 2 usage "$program"
	refuses 1 NAME_NOT_REGISTERED "$program" nosuchname
	refuses 1 'event 0x400[23]' "$program" end0 "$(address_of end1)" "${text[@]}"
done
refuses 1 'nosuchhost.invalid: no such host' poll end0 nosuchhost.invalid
