#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# conform2 on the device: see on_device.sh.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may run scripts with another shell
export CONFORM=conform2
# shellcheck source=on_device.sh
. "$(dirname -- "$(readlink -f -- "$0")")/on_device.sh"
