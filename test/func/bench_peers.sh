#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The programs of `make bench-peers` and `make bench-tcp-peers`, with few and small transfers: all
# sizes are measured of each, and a program that fails is not passed over.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may run scripts with another shell
# shellcheck source=ends.sh
. "$(dirname -- "$(readlink -f -- "$0")")/ends.sh"
bench=${top_srcdir:-.}/test/bench/run-clock

skip_all() {
	echo "1..0 # SKIP $1"
	exit 0
}
# the programs end with what they have
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
case $DAT_TEST_DEV in
tcp)
	part=peers-tcp heads='socket us,raw us,ours us,ratio us' tables='sizes asleep'
	export PEERS_TURNS=3 PEERS_BYTES=64 PEERS_COUNT=5
	sizes=4
	;;
rxe)
	[[ ${PERFTEST-} ]] || skip_all 'other programs that connect can fail: PERFTEST=1 runs them'
	command -v ib_send_lat >/dev/null || skip_all 'perftest is not installed'
	part=peers-verbs heads='raw us,ours us,ratio us,raw GB/s,ours GB/s,ratio GB/s,'
	heads+='raw GB/s of reads' tables=sizes
	export PEERS_TURNS=1 PEERS_BYTES=4 PEERS_COUNT=5
	sizes=2
	;;
*) skip_all 'dtest is measured beside other programs over tcp and soft-RoCE only' ;;
esac

# results of its own, beside those that may have been measured in this build
mkdir "$tmp/build"
ln -s "$(realpath "$build")"/{dat,dtest,test,udapl,Makefile} "$tmp/build"
results=$tmp/build/bench/$part.tsv

# measure: as make does; returns its status
measure() { timeout -k 5 300 bash "$bench" "$tmp/build" peers >"$tmp/bench.log" 2>&1; }

# all_sizes TABLE: has a row for each size, of numbers; a rate may be too low for its decimals, and
# then has no ratio
all_sizes() {
	awk -F '\t' -v table="$1" -v sizes="$sizes" '
		$1 == "table" { mine = $2 == table; columns = NF - 1 }
		mine && $1 == "row" && $2 == 4 ^ rows && NF == columns {
			rows++
			for (i = 3; i <= NF; i++)
				if ($i !~ /^([0-9]+[.][0-9]+|-?nan|inf)$/)
					exit 1
		}
		END { exit rows != sizes }' "$results"
}

echo 1..4
measure
report $? 'all programs pass'
rc=0
for table in $tables; do
	all_sizes "$table" || rc=1
done
report $rc 'each table has all sizes'
[[ $(sed -n 's/\t/,/g; s/^table,sizes,bytes,//p' "$results") == "$heads,"* ]]
report $? "times are those of $heads"

# a dtest that prints one size less
rm "$tmp/build/dtest"
mkdir "$tmp/build/dtest"
{
	echo '#!/bin/bash'
	echo "set -o pipefail; '$(realpath "$build")/dtest/dtest' \"\$@\" | sed -u '/^4,/d'"
} >"$tmp/build/dtest/dtest"
chmod +x "$tmp/build/dtest/dtest"
rm "$results"
measure && rc=1 || rc=0
[[ ! -e $results ]] || rc=1
report $rc 'without one of the sizes there are no results'
