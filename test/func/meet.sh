# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For scripts that test/vm/pair runs in both guests: they source it first.

[[ -n ${DAT_TEST_END:-} ]] || { echo '1..0 # SKIP test/vm/pair runs this'; exit 0; }
# shellcheck source=ends.sh
. "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/ends.sh"

# shellcheck disable=SC2034 # the scripts use them
here=end$DAT_TEST_END interface=v$DAT_TEST_END meetings=0

# A lost packet is sent again after 134 ms; with the time of a path a run would take minutes.
export DAPL_ACK_TIMER=15

# meet ADDRESS: the second guest goes on when the first, which has ADDRESS, has come here, too
meet() {
	local port=$((46000 + meetings++)) word=

	if ((DAT_TEST_END == 0)); then
		busybox nc -l -p "$port" <<<go >/dev/null
	else
		until [[ $word == go ]]; do
			{ read -r word <"/dev/tcp/$1/$port"; } 2>/dev/null || word=
		done
	fi
}

# dtest_between NAME ADDRESS: dtest between the two ends, over this end's NAME in dat.conf; the
# client calls the server by ADDRESS. Returns whether it passes.
dtest_between() {
	local rc=0 server

	program dtest
	if ((DAT_TEST_END == 0)); then
		: >"$tmp/dtest.log"
		"$program" -s -P "$1" --wait 600 >"$tmp/dtest.log" 2>&1 &
		server=$!
		until_line "$tmp/dtest.log" waiting "$server"
		meet "$DAT_TEST_ADDR0"
		wait "$server" || rc=1
	else
		meet "$DAT_TEST_ADDR0"
		"$program" -P "$1" -h "$2" --wait 600 >"$tmp/dtest.log" 2>&1 || rc=1
	fi
	grep -q PASSED "$tmp/dtest.log" || rc=1
	return $rc
}
