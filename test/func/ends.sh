# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For scripts that run a program over the device: the names end0 and end1 for its two interfaces, and TAP.
# They source it first, from bash; without a device it ends them with a skip.

set -uo pipefail

# the harness gives both; a run by hand is one from the build's folder
build=${top_builddir:-$PWD}
[[ -n ${DAT_TEST_DEV:-} ]] || {
	echo '1..0 # SKIP no RDMA device here: make check-vm runs this where there is one'
	exit 0
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export DAT_OVERRIDE=$tmp/dat.conf
for end in 0 1; do
	interface=DAT_TEST_IF$end
	echo "end$end u1.2 nonthreadsafe default $build/udapl/.libs/libdaplcma.so dapl.1.2 \"${!interface} 0\" \"\""
done >"$DAT_OVERRIDE"

count=0
verdict() { # RESULT WHAT: the last lines of $tmp/*.log say why, if it is not 0
	((++count))
	if (($1)); then
		echo "not ok $count - $2"
		tail -n 20 "$tmp"/*.log | sed 's/^/# /'
	else
		echo "ok $count - $2"
	fi
}
