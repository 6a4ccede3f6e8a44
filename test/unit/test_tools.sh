#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The versions that tools and libraries report, the form of libdat's messages, and that tools write
# no colours, for both editions of DAT. Prints TAP.

# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
top=${top_builddir:-.}
version=$(sed -n 's/^Version: //p' "$top/dat.pc")
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
unset DAT_DBG_TYPE DAT_DBG_DEST DAT_DBG_TIME

of='' # the edition, for the names of results
# result NAME GOT WANTED: GOT is one line, which matches the extended regular expression WANTED
result() {
	[ "$(printf '%s\n' "$2" | wc -l)" = 1 ] && printf '%s\n' "$2" | grep -Eqx -- "$3"
	got_wanted $? "$1$of" "$2" "$3"
}

# messages [NAME=VALUE...]: what libdat writes when dtest opens a name that is not registered, then
# "process" and the process id, which dtest prints
messages() {
	env DAT_OVERRIDE="$tmp/dat.conf" "$@" "$dtest" -q -P missing 2>&1 |
		sed -n '/libdat/p; s/^\([0-9]*\) Error in step.*/process \1/p'
}

# refused ERROR OPTION...: dtest has status 244, and prints the error and who tells the options
refused() {
	want=$1
	shift
	"$dtest" "$@" >"$tmp/usage" 2>"$tmp/errors"
	result "dtest $*: $want" \
		"$?$(cat "$tmp/usage") $(tail -n +2 "$tmp/errors")" "244 try dtest$e --help"
	result "dtest $* says why" "$(head -n 1 "$tmp/errors")" "$want"
}

# on_terminal COMMAND: what it writes there, although the environment asks for colours
on_terminal() {
	TERM=xterm-256color CLICOLOR_FORCE=1 script -qec "$1" /dev/null </dev/null 2>&1
}

# plain TOOL OPTION...: on a terminal, too, it writes lines without control sequences
plain() {
	name="$* writes no colours on a terminal$of"
	tool=$1
	shift
	if ! on_terminal true >/dev/null; then
		skip "$name" 'no terminal can be had (script, of util-linux)'
		return
	fi
	on_terminal "$top/$tool/$tool$e $*" >"$tmp/out"
	[ -s "$tmp/out" ] && ! LC_ALL=C grep -q '[^[:print:][:space:]]' "$tmp/out"
	report $? "$name" "$(cat -v "$tmp/out")"
}

# tells_loss TOOL OPTION...: what is written on a disk that is full is lost, and that is a failure
tells_loss() {
	name="$* has status 1 if its output is lost"
	tool=$1
	shift
	got=$("$top/$tool/$tool$e" "$@" 2>&1 >/dev/full)
	result "$name" "$? $got" "1 $tool$e: output was lost(: No space left on device)?"
}

# of_edition: the tools and the registry of the edition with the names, versions and the other's
# version that the variables have
of_edition() {
	dtest=$top/dtest/dtest$e
	dapltest=$top/dapltest/dapltest$e
	result 'dtest --version prints name, package and version' "$("$dtest" --version)" \
		"dtest$e \\(dat\\) $version"
	result 'dtest -V is --version' "$("$dtest" -V)" "dtest$e \\(dat\\) $version"
	result 'dapltest --version prints name, package and version' "$("$dapltest" --version)" \
		"dapltest$e \\(dat\\) $version"
	"$dapltest" --help >"$tmp/help" 2>"$tmp/errors"
	result 'dapltest --help prints the usage on standard output, and succeeds' \
		"$? $(head -n 1 "$tmp/help" | cut -d ' ' -f 1,2)$(cat "$tmp/errors")" \
		"0 usage: dapltest$e"
	printf '%s\n' '# a server' '-T S' '-Z # unknown' >"$tmp/arguments"
	"$dapltest" -f "$tmp/arguments" >"$tmp/out" 2>"$tmp/errors"
	result 'dapltest -f reads arguments, and has status 1 for a wrong one' \
		"$? $(head -n 1 "$tmp/errors")$(cat "$tmp/out")" \
		"1 dapltest$e: -Z: not an option of -T S"
	result 'dapltest prints who tells the options then, and nothing else' \
		"$(tail -n +2 "$tmp/errors")" "try dapltest$e --help"
	"$dtest" --help >"$tmp/help" 2>&1
	result 'dtest --help succeeds' $? 0
	"$dtest" -U >"$tmp/usage" 2>"$tmp/errors"
	result 'dtest -U has status 244' $? 244
	result 'dtest -U and --help print the same text on standard output' \
		"$(cmp "$tmp/help" "$tmp/usage")$(cat "$tmp/errors")" ''
	result 'dtest -U has the words that scripts look for' \
		"$(grep -c 'validate data' "$tmp/usage")" 1

	refused "[^ ]*dtest$e: invalid option -- 'i'" -i 4 # another program's, with another meaning
	refused "[^ ]*dtest$e: option requires an argument -- 'b'" -b
	refused "dtest$e: more: not an option" -s more
	refused "dtest$e: -b 25: not a number from 26 to 1073741824 without -a" -b 25
	refused "dtest$e: -b 0: not a number from 1 to 1073741824" -a -b 0
	needs='needs 140735340871680 bytes of memory; it may take [0-9]+, half of what there is'
	refused "dtest$e: -b 1073741824 -B 65535: the test $needs" -B 65535 -b 1073741824
	refused "dtest$e: -B 65536: not a number from 1 to 65535" -B 65536
	refused "dtest$e: -n 65536: not a number from 1 to 65535" --port 65536
	refused "dtest$e: -d -1: not a number from 0 to 86400" -d -1
	refused "dtest$e: -S 33: not a number from 1 to 32" -a -S 33
	refused "dtest$e: --wait 0: not a number from 1 to 3600" --wait 0
	refused "dtest$e: -W: only with -a or --time" -W
	refused "dtest$e: -S: only with -a or --time" -S 2
	refused "dtest$e: --csv: only with -a or --time" --csv
	refused "dtest$e: -W: not with -w, which has no pings" -w -W -a
	refused "dtest$e: --old: not with -a" --old -a
	refused "dtest$e: --csv: not with --json" -a --json --csv
	refused "dtest$e: -q: not with -a" -a -q
	refused "dtest$e: -q: not with --time" -q --time 1
	refused "dtest$e: -q: not with -w" -w -q
	refused "dtest$e: --list: not with -q" -q --list
	refused "dtest$e: --list: not with -a" --list -a
	refused "dtest$e: --list: not with -w" --list -w

	result 'the registry contains its version' \
		"$(tr '\0' '\n' <"$top/dat/.libs/$registry" | grep -ax "$libdat [0-9.]*")" \
		"$libdat $version"

	echo 'a line with too few fields' >"$tmp/dat.conf"
	few="$tmp/dat.conf:1: fewer than eight fields"
	got=$(messages)
	process=$(echo "$got" | sed -n 's/^process //p')
	result 'a message begins with the process id' "$(echo "$got" | head -n 1)" \
		"$libdat\\[$process\\]: $few"
	result 'DAT_DBG_TIME puts the time in front' "$(messages DAT_DBG_TIME=1 | head -n 1)" \
		"[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9]{6} $libdat\\[[0-9]+\\]: $few"
	result 'DAT_DBG_TIME=0 does not' \
		"$(messages DAT_DBG_TIME=0 | head -n 1)" "$libdat\\[[0-9]+\\]: $few"
	result 'results are logged by their names' "$(messages DAT_DBG_TYPE=32 | head -n 1)" \
		"$libdat\\[[0-9]+\\]: dat_ia_openv\\(.*\\): DAT_PROVIDER_NOT_FOUND \
DAT_NAME_NOT_REGISTERED"
	long=$(printf '%04000d' 0)
	result 'a message that is too long is cut to one line' \
		"$(messages DAT_OVERRIDE="/$long" |
			grep -c "^$libdat\[[0-9]*\]: .* cannot read \"/0*\$")" 1

	later=u${dat%.*}.3 no="can't be loaded, or is no provider"
	echo "old u$other nonthreadsafe default libnone.so dapl.$other \"ib0 0\" \"\"
no u$dat nonthreadsafe default /nonexistent/libnone.so dapl.$dat \"ib0 0\" \"\"
safe u$dat threadsafe default libnone.so dapl.$dat \"ib0 0\" \"\"
new $later nonthreadsafe default /nonexistent/libnone.so dapl.$dat \"ib0 0\" \"\"
no $later nonthreadsafe default libnone.so dapl.$dat \"ib0 0\" \"\"" >"$tmp/dat.conf"
	export DAT_OVERRIDE="$tmp/dat.conf" DAT_DBG_TYPE=0
	"$dtest" --list >"$tmp/list" 2>&1
	result 'dtest --list fails without a name that can be opened' "$?" 1
	result 'dtest --list has a line for each name, and says why none is of use' \
		"$(sed 's/^[0-9]* //' "$tmp/list" | tr '\n' '|')" \
		"old u$other nonthreadsafe: not for programs of DAT $dat\\|\
no u$dat nonthreadsafe: the library that dat.conf has for no $no\\|\
safe u$dat threadsafe: the line of safe in dat.conf says threadsafe, but programs of DAT $dat ask \
for nonthreadsafe\\|\
new $later nonthreadsafe: the library that dat.conf has for new $no\\|\
no $later nonthreadsafe: programs of DAT $dat open u$dat\\|\
Error: no name of dat.conf can be opened on this host\\|"
	unset DAT_DBG_TYPE
	plain dtest --help
	plain dtest --list
	plain dtest -P missing
	plain dapltest --help
	plain dapltest -T S -D missing
	tells_loss dtest --help
	tells_loss dtest --version
	tells_loss dapltest --help
	tells_loss dapltest --version
}

echo 1..150
: >"$tmp/dat.conf"
export DAT_OVERRIDE="$tmp/dat.conf"
plain datinfo --help
plain datinfo
tells_loss datinfo --help
tells_loss datinfo --version
unset DAT_OVERRIDE
e='' dat=1.2 other=2.0 libdat=libdat registry=libdat.so.1
of_edition
of=' (2.0)' e=2 dat=2.0 other=1.2 libdat=libdat2 registry=libdat2.so.2
of_edition
[ $failures -eq 0 ]
