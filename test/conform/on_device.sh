#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The conformance suite over the device, through the names of a dat.conf.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may know another shell
# shellcheck source=../func/ends.sh
. "$(dirname -- "$(readlink -f -- "$0")")/../func/ends.sh"

CONFORM_NAMES='end0 end1' "$build/test/conform/conform"
