#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# dat.conf in the guest: the lines of datinfo --generate open, and so do lines of OFED's kind, where
# --enable-old-names has built their libraries; dtest passes between lines of each kind, with each
# library at one end; of the file that is installed those open that name no interface, but not
# libdaplofi on iWARP.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may run scripts with another shell
# shellcheck source=ends.sh
. "$(dirname -- "$(readlink -f -- "$0")")/ends.sh"

case ${DAT_TEST_GUEST:+$DAT_TEST_DEV} in
rxe) verbs='opens 10.77.0.1, v0 up 10000 Mb/s, rxe0 port 1 ACTIVE, libfabric verbs' ;;
siw) verbs="unusable open siw0: libfabric's verbs can't connect over iWARP without blocking; .*" ;;
*)
	echo '1..0 # SKIP only in the guest, and once for both providers'
	exit 0
	;;
esac
[[ -e $build/udapl/.libs/libdaplofi.so ]] || {
	echo '1..0 # SKIP libdaplofi was not built'
	exit 0
}
export FI_PROVIDER=tcp,verbs # all of libfabric's take a second to begin

program datinfo
datinfo=$program
program dtest
dtest=$program
edition=2
program dtest
dtest2=$program

# libraries of old names need libdaplcma2, which is beside them once they are installed
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$build/udapl/.libs

# with_built FILE: its lines, with the libraries of this build
with_built() { sed "s, \(libdapl[a-z2]*\)\.so\.[12] , $build/udapl/.libs/\1.so ," "$1"; }

# dtest_on NAME OPTION...: dtest, or dtest2 if the name is one of DAT 2.0
dtest_on() {
	local dtest=$dtest

	[[ $1 != *-v2-* ]] || dtest=$dtest2
	timeout -k 5 3600 "$dtest" --wait 120 -P "$@" >>"$tmp/$1.log" 2>&1
}

# between SERVER CLIENT PORT: dtest passes between these names
between() {
	local rc=0 server

	: >"$tmp/$1.log"
	dtest_on "$1" --port "$3" -s &
	server=$!
	until_line "$tmp/$1.log" waiting $server
	dtest_on "$2" --port "$3" -h "$DAT_TEST_ADDR0" || rc=1
	wait $server || rc=1
	grep -q PASSED "$tmp/$1.log" && grep -q PASSED "$tmp/$2.log" || rc=1
	return $rc
}

# old_line NAME LIBRARY PARAMS
old_line() {
	echo "$1 u2.0 nonthreadsafe default $build/udapl/.libs/$2.so.2 dapl.2.0 \"$3\" \"\""
}

# old_lines END: as OFED's dat.conf has them for a device, its interface and its address
old_lines() {
	local interface=DAT_TEST_IF$1 address=DAT_TEST_ADDR$1

	old_line "ofa-v2-cma$1" libdaplofa "${!interface} 0"
	old_line "ofa-v2-host$1" libdaplofa "${!address} 0"
	old_line "ofa-v2-scm$1" libdaploscm "$kind$1 1"
	old_line "ofa-v2-ucm$1" libdaploucm "$kind$1 1"
}

# says NAME STATE: the list for the installed file has it for this name
says() {
	grep -Eq "^ [0-9]+ $1 [0-9.]+ $2 *\$" "$tmp/installed.log"
	report $? "dat.conf as installed: $1 $2"
}

"$datinfo" --generate >"$tmp/generated"
with_built "$tmp/generated" >"$DAT_OVERRIDE"
with_built "${top_srcdir:-$build/..}/dat.conf" >"$tmp/installed"
kind=$DAT_TEST_DEV
# of the two ends one has DAT 1.2 and the other 2.0
pairs=('OpenIB-cma ofa-v2-v1' "ofa-v2-${kind}0-1s OpenIB-${kind}1-1")
if [[ -e $build/udapl/.libs/libdaplofa.so.2 ]]; then
	{ old_lines 0; old_lines 1; } >>"$DAT_OVERRIDE"
	pairs+=('ofa-v2-cma0 ofa-v2-host1' 'ofa-v2-scm0 ofa-v2-ucm1')
fi
# TCP over the interfaces is the same whatever device they have
[[ $kind == siw ]] || pairs+=('ofi-tcp-v0 ofi-v2-tcp-v1' 'ofi-v2-verbs ofi-verbs-v1')
echo 1..$((${#pairs[@]} + 5))
tests=()
for i in "${!pairs[@]}"; do
	# shellcheck disable=SC2086 # two names
	between ${pairs[i]} $((45700 + i)) &
	tests+=($!)
done
"$datinfo" --wait 600 --json >"$tmp/json.log"
[[ $(grep -c '"state": "opens", .*"address": "1' "$tmp/json.log") == \
	$(grep -c '^[^#]' "$DAT_OVERRIDE") ]]
report $? 'each name of datinfo --generate opens'
for i in "${!pairs[@]}"; do
	wait "${tests[i]}"
	report $? "dtest between ${pairs[i]/ / and }"
done
DAT_OVERRIDE=$tmp/installed "$datinfo" --wait 600 | tr -s ' ' >"$tmp/installed.log"
says ofi-tcp 'opens 10.77.0.1, v0 up 10000 Mb/s, .*'
says ofi-verbs "$verbs"
says ofi-v2-tcp 'opens 10.77.0.1, v0 up 10000 Mb/s, .*'
says ofi-v2-verbs "$verbs"
