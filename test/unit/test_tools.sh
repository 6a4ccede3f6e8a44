#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The versions that tools and library report, and the form of libdat's messages. Prints TAP.

top=${top_builddir:-.}
dtest=$top/dtest/dtest
version=$(sed -n 's/^Version: //p' "$top/dat.pc")
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
unset DAT_DBG_TYPE DAT_DBG_DEST DAT_DBG_TIME
number=0

# result NAME GOT WANTED: GOT is one line, which matches the extended regular expression WANTED
result() {
	number=$((number + 1))
	if [ "$(printf '%s\n' "$2" | wc -l)" = 1 ] && printf '%s\n' "$2" | grep -Eqx -- "$3"; then
		echo "ok $number - $1"
	else
		echo "not ok $number - $1"
		printf 'got: %s\nwanted: %s\n' "$2" "$3" | sed 's/^/# /'
	fi
}

# messages [NAME=VALUE...]: what libdat writes when dtest opens a name that is not registered, then
# "process" and the process id, which dtest prints
messages() {
	env DAT_OVERRIDE="$tmp/dat.conf" "$@" "$dtest" -q -P missing 2>&1 |
		sed -n '/libdat/p; s/^\([0-9]*\) Error in step.*/process \1/p'
}

echo 1..12
result 'dtest --version prints name, package and version' "$("$dtest" --version)" \
	"dtest \\(dat\\) $version"
result 'dtest -V is --version' "$("$dtest" -V)" "dtest \\(dat\\) $version"
result 'window --version prints name, package and version' \
	"$("$top/examples/window" --version)" "window \\(dat\\) $version"
"$dtest" --help >"$tmp/help" 2>&1
result 'dtest --help succeeds' $? 0
"$dtest" -U >"$tmp/usage" 2>"$tmp/errors"
result 'dtest -U has status 244' $? 244
result 'dtest -U and --help print the same text on standard output' \
	"$(cmp "$tmp/help" "$tmp/usage")$(cat "$tmp/errors")" ''
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
