#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The conformance suite over the device, through the names of a dat.conf.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may know another shell
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

CONFORM_NAMES='end0 end1' "$build/test/conform/conform"
