#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What bash completes for the tools: every option that they print, names of dat.conf, and what
# follows an option. Prints TAP.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may run scripts with another shell
# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
build=${top_builddir:-.}
# shellcheck source=../../tools/completion.bash
. "${top_srcdir:-.}/tools/completion.bash"
compopt() { :; } # outside of a completion it is an error
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
export DAT_OVERRIDE=$tmp/dat.conf
cat >"$DAT_OVERRIDE" <<'END'
# comment u1.2 nonthreadsafe default libdaplcma.so.1 dapl.1.2 "ib0 0" ""
first u1.2 nonthreadsafe default libdaplcma.so.1 dapl.1.2 "ib0 0" ""
second-2 u2.0 nonthreadsafe default libdaplcma2.so.2 dapl.2.0 "ib0 0" ""
END

# completes COMMAND WORD...: what the last word is completed to, in one line
completes() {
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	COMPREPLY=()
	"$(complete -p "$1" | sed 's/.*-F \([^ ]*\) .*/\1/')" "$1" "${*: -1}" "${*: -2:1}"
	echo "${COMPREPLY[*]}"
}

echo 1..15
for tool in dtest dtest2 dapltest dapltest2 datinfo; do
	# shellcheck disable=SC2207 # options have no blanks
	options=($("$build/${tool%2}/$tool" --help | grep -oE -e "(^|[ [])-(-[a-z]+|[a-zA-Z])\\b" |
		tr -d ' [' | sort -u))
	for option in "${options[@]}"; do
		[[ " $(completes "$tool" "$option") " == *" $option "* ]] || echo "$option"
	done >"$tmp/missing"
	same "each option of $tool is completed (${#options[@]})" "$(cat "$tmp/missing")" ''
done
same 'an option that no tool has is not completed' "$(completes dtest --none)" ''
same 'names for DAT 1.2' "$(completes dtest -P '')" first
same 'under the name that packages give it' "$(completes dtest1 -P f)" first
same 'names for DAT 2.0' "$(completes dapltest2 -D '')" second-2
same 'names for both' "$(completes datinfo '' | tr ' ' '\n' | grep -c '^first$\|^second-2$')" 2
same 'modes of dapltest' "$(completes dapltest -T '')" 'S T P Q L F'
same 'families of functions' "$(completes dapltest -T F -f h)" hwconn
same 'a file of arguments' "$(completes dapltest -f "$tmp/dat")" "$DAT_OVERRIDE"
same 'files to check' "$(completes datinfo --check "$tmp/dat")" "$DAT_OVERRIDE"
same 'nothing where a number follows' "$(completes dtest -n '')" ''
