#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# conform on the device, by names of a dat.conf; on_device2.sh: conform2, for DAT 2.0.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may run scripts with another shell
# shellcheck source=../func/ends.sh
. "$(dirname -- "$(readlink -f -- "$0")")/../func/ends.sh"

# The log has the provider's errors, warnings and messages about connections and endpoints, each
# before the result of its case.
export CONFORM_NAMES='end0 end1' DAPL_DBG_TYPE=0x1b
conform=$build/test/conform/${CONFORM:-conform}
# With CONFORM_ROWS set only the rows, which run in one process; each case has one of its own, and
# libfabric takes a second to begin in a guest. With CONFORM_ROWS=own only those of DAT 1.2 that
# 2.0 has not, or with another result, and all of 2.0.
rows=()
case ${CONFORM_ROWS:-} in
own)
	[[ -n ${CONFORM:-} ]] || mapfile -t rows < <(comm -23 <("$conform" --list | sort) \
		<("${conform}2" --list | sort))
	;;
?*) mapfile -t rows < <("$conform" --list | sed -n 's/^\(dat_[a-z_]*\):.*/\1/p' | sort -u) ;;
esac
stdbuf -oL "$conform" --scoreboard "${rows[@]}" 2>&1
