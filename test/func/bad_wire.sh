#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# bad_wire.sh: connections over libfabric's tcp and a wire that turns bad; see wire.c.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may run scripts with another shell
[[ ${DAT_TEST_DEV:-tcp} == tcp ]] || {
	echo "1..0 # SKIP the wire is that of libfabric's tcp"
	exit 0
}
here=${top_srcdir:-$(dirname -- "$0")/../..}/test/func
exec bash "$here/on-wire" test/func/wire.device
