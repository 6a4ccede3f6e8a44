#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# examples/window between the two interfaces of the device: it prints the lines that
# examples/README.md shows, and refuses invalid arguments.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may run scripts with another shell
# shellcheck source=ends.sh
. "$(dirname -- "$(readlink -f -- "$0")")/ends.sh"

# run STATUS ARG...: the program exits with STATUS
run() {
	timeout -k 5 3600 "$build/examples/window" "${@:2}" >"$tmp/out.log" 2>"$tmp/err.log"
	[[ $? == "$1" ]]
}

# The status of the client's write depends on the transport: iWARP completes it when TCP has it.
refusal='client: write refused: DAT_DTO_ERR_REMOTE_ACCESS'
# libfabric's tcp ends the connection and says no more.
case $DAT_TEST_DEV in
*siw) refusal='client: write completed with status [0-9]+, before the peer refused it' ;;
tcp) refusal='client: write flushed: the peer has ended the connection' ;;
esac
expected=(
	'server: window bound to line 1, context 0x[0-9a-f]+'
	'client: read "written by the server" through the window'
	'server: line 1 is now "written by the client"'
	'server: window unbound'
	"$refusal"
	'client: connection ended'
	'server: line 1 is still "written by the client"'
)

# prints_lines SERVER CLIENT: these lines and no others
prints_lines() {
	local lines rc=0 i

	run 0 "$@" || rc=1
	[[ ! -s $tmp/err.log ]] || rc=1
	mapfile -t lines <"$tmp/out.log"
	[[ ${#lines[@]} == "${#expected[@]}" ]] || rc=1
	for i in "${!expected[@]}"; do
		[[ ${lines[i]:-} =~ ^${expected[i]}$ ]] || rc=1
	done
	report $rc "window $*"
}

# refuses STATUS WORDS ARG...: prints one line, an error message with WORDS, and maybe libdat's
refuses() {
	local rc=0

	run "$1" "${@:3}" || rc=1
	[[ ! -s $tmp/out.log && $(grep -vc ^libdat "$tmp/err.log") == 1 ]] || rc=1
	grep -q -e "$2" "$tmp/err.log" || rc=1
	report $rc "window ${*:3}: status $1"
}

echo 1..7
prints_lines end0 end1
prints_lines end1 end0
prints_lines end0 end0
refuses 2 usage
refuses 2 usage end0
refuses 2 usage end0 end1 end0
refuses 1 NAME_NOT_REGISTERED end0 nosuchname
