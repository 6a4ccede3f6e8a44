#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The conformance suite over the device, through the names of a dat.conf.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may know another shell
# shellcheck source=../func/ends.sh
. "$(dirname -- "$(readlink -f -- "$0")")/../func/ends.sh"

# In the log, before each result, what the provider had to say: errors, warnings, connections, endpoints.
export CONFORM_NAMES='end0 end1' DAPL_DBG_TYPE=0x1b
stdbuf -oL "$build/test/conform/conform" 2>&1
