#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The versions that tools and library report, and the form of libdat's messages. Prints TAP.

# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
top=${top_builddir:-.}
dtest=$top/dtest/dtest
dapltest=$top/dapltest/dapltest
version=$(sed -n 's/^Version: //p' "$top/dat.pc")
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
unset DAT_DBG_TYPE DAT_DBG_DEST DAT_DBG_TIME

# result NAME GOT WANTED: GOT is one line, which matches the extended regular expression WANTED
result() {
	[ "$(printf '%s\n' "$2" | wc -l)" = 1 ] && printf '%s\n' "$2" | grep -Eqx -- "$3"
	got_wanted $? "$@"
}

# messages [NAME=VALUE...]: what libdat writes when dtest opens a name that is not registered, then
# "process" and the process id, which dtest prints
messages() {
	env DAT_OVERRIDE="$tmp/dat.conf" "$@" "$dtest" -q -P missing 2>&1 |
		sed -n '/libdat/p; s/^\([0-9]*\) Error in step.*/process \1/p'
}

echo 1..47
result 'dtest --version prints name, package and version' "$("$dtest" --version)" \
	"dtest \\(dat\\) $version"
result 'dtest -V is --version' "$("$dtest" -V)" "dtest \\(dat\\) $version"
result 'dapltest --version prints name, package and version' "$("$dapltest" --version)" \
	"dapltest \\(dat\\) $version"
"$dapltest" --help >"$tmp/help" 2>"$tmp/errors"
result 'dapltest --help prints the usage on standard output, and succeeds' \
	"$? $(head -n 1 "$tmp/help" | cut -d ' ' -f 1,2)$(cat "$tmp/errors")" '0 usage: dapltest'
printf '%s\n' '# a server' '-T S' '-Z # unknown' >"$tmp/arguments"
"$dapltest" -f "$tmp/arguments" >"$tmp/out" 2>"$tmp/errors"
result 'dapltest -f reads arguments, and has status 1 for a wrong one' \
	"$? $(head -n 1 "$tmp/errors")$(cat "$tmp/out")" '1 dapltest: -Z: not an option of -T S'
result 'dapltest prints the usage on standard error then' \
	"$(tail -n +2 "$tmp/errors" | cmp - "$tmp/help")" ''
result 'window --version prints name, package and version' \
	"$("$top/examples/window" --version)" "window \\(dat\\) $version"
"$dtest" --help >"$tmp/help" 2>&1
result 'dtest --help succeeds' $? 0
"$dtest" -U >"$tmp/usage" 2>"$tmp/errors"
result 'dtest -U has status 244' $? 244
result 'dtest -U and --help print the same text on standard output' \
	"$(cmp "$tmp/help" "$tmp/usage")$(cat "$tmp/errors")" ''
result 'dtest -U has the words that scripts look for' \
	"$(grep -c 'validate data' "$tmp/usage")" 1

# refused ERROR OPTION...: dtest has status 244, begins with the error and then prints the usage
refused() {
	want=$1
	shift
	"$dtest" "$@" >"$tmp/usage" 2>"$tmp/errors"
	result "dtest $*: $want" "$?$(cat "$tmp/usage")$(sed -n '2s/:.*//p' "$tmp/errors")" 244usage
	result "dtest $* says why" "$(head -n 1 "$tmp/errors")" "$want"
}
refused "[^ ]*dtest: invalid option -- 'i'" -i 4 # another program's, with another meaning
refused "[^ ]*dtest: option requires an argument -- 'b'" -b
refused 'dtest: more: not an option' -s more
refused 'dtest: -b 25: not a number from 26 to 1073741824 without -a' -b 25
refused 'dtest: -b 0: not a number from 1 to 1073741824' -a -b 0
refused 'dtest: -B 65536: not a number from 1 to 65535' -B 65536
refused 'dtest: -n 65536: not a number from 1 to 65535' --port 65536
refused 'dtest: -d -1: not a number from 0 to 86400' -d -1
refused 'dtest: -S 33: not a number from 1 to 32' -a -S 33
refused 'dtest: --wait 0: not a number from 1 to 3600' --wait 0
refused 'dtest: -W: only with -a' -W
refused 'dtest: -S: only with -a' -S 2
refused 'dtest: -W: not with -w, which has no pings' -w -W -a
refused 'dtest: --old: not with -a' --old -a

result 'libdat.so.1 contains its version' \
	"$(tr '\0' '\n' <"$top/dat/.libs/libdat.so.1" | grep -ax 'libdat [0-9.]*')" \
	"libdat $version"

echo 'a line with too few fields' >"$tmp/dat.conf"
few="$tmp/dat.conf:1: fewer than eight fields"
got=$(messages)
process=$(echo "$got" | sed -n 's/^process //p')
result 'a message begins with the process id' "$(echo "$got" | head -n 1)" \
	"libdat\\[$process\\]: $few"
result 'DAT_DBG_TIME puts the time in front' "$(messages DAT_DBG_TIME=1 | head -n 1)" \
	"[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9]{6} libdat\\[[0-9]+\\]: $few"
result 'DAT_DBG_TIME=0 does not' \
	"$(messages DAT_DBG_TIME=0 | head -n 1)" "libdat\\[[0-9]+\\]: $few"
result 'results are logged by their names' "$(messages DAT_DBG_TYPE=32 | head -n 1)" \
	'libdat\[[0-9]+\]: dat_ia_openv\(.*\): DAT_PROVIDER_NOT_FOUND DAT_NAME_NOT_REGISTERED'
long=$(printf '%04000d' 0)
result 'a message that is too long is cut to one line' \
	"$(messages DAT_OVERRIDE="/$long" | grep -c '^libdat\[[0-9]*\]: .* cannot read "/0*$')" 1

echo "old u2.0 nonthreadsafe default libnone.so dapl.2.0 \"ib0 0\" \"\"
no u1.2 nonthreadsafe default /nonexistent/libnone.so dapl.1.2 \"ib0 0\" \"\"" >"$tmp/dat.conf"
export DAT_OVERRIDE="$tmp/dat.conf" DAT_DBG_TYPE=0
"$dtest" --list >"$tmp/list" 2>&1
result 'dtest --list fails without a name that can be opened' "$?" 1
result 'dtest --list has a line for each name, and says why none is of use' \
	"$(sed 's/^[0-9]* //' "$tmp/list" | tr '\n' '|')" \
	"old u2.0 nonthreadsafe: not for programs of DAT 1.2\\|no u1.2 nonthreadsafe: the \
library that dat.conf has for no can't be loaded, or is no provider\\|Error: no name of dat.conf \
can be opened on this host\\|"
