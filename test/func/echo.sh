#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# examples/echo between the two interfaces of the device: both sides print the message; what cannot
# be is refused with one line.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may run scripts with another shell
# shellcheck source=ends.sh
. "$(dirname -- "$(readlink -f -- "$0")")/ends.sh"

echo_program=$build/examples/echo

# The client knows the address of the server's interface from the kernel.
address_of() {
	ip -o -4 address show dev "$1" | sed -n 's,.* inet \([0-9.]*\)/.*,\1,p' | head -n 1
}

echoes() { # SERVER CLIENT TEXT
	local server rc=0 interface=DAT_TEST_IF${1#end}

	: >"$tmp/server.log"
	"$echo_program" "$1" >"$tmp/server.log" 2>&1 &
	server=$!
	until_line "$tmp/server.log" waiting "$server"
	timeout -k 5 3600 "$echo_program" "$2" "$(address_of "${!interface}")" "$3" \
		>"$tmp/client.log" 2>&1 || rc=1
	((rc == 0)) || kill "$server" 2>/dev/null
	wait "$server" || rc=1
	[[ $(<"$tmp/server.log") == "server: waiting"$'\n'"server: received \"$3\"" ]] || rc=1
	[[ $(<"$tmp/client.log") == "client: received \"$3\"" ]] || rc=1
	report $rc "echo $1 $2"
}

refuses() { # STATUS WORDS ARG...: prints one line, an error message with WORDS
	local rc=0

	timeout -k 5 3600 "$echo_program" "${@:3}" >"$tmp/out.log" 2>"$tmp/err.log"
	[[ $? == "$1" ]] || rc=1
	[[ ! -s $tmp/out.log && $(grep -vc ^libda "$tmp/err.log") == 1 ]] || rc=1
	grep -q -e "$2" "$tmp/err.log" || rc=1
	report $rc "echo ${*:3}: status $1"
}

echo 1..5
echoes end0 end1 'Hello, world'
echoes end1 end0 ''
refuses 2 usage
refuses 1 NAME_NOT_REGISTERED nosuchname
refuses 1 'event 0x400[23], not 0x4001' end0 "$(address_of "$DAT_TEST_IF1")" 'nobody listens'
