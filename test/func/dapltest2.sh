#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# dapltest.sh for DAT 2.0: dapltest2, libdat2 and the providers for it.
DAT_TEST_EDITION=2 exec bash "$(dirname -- "$(readlink -f -- "$0")")/dapltest.sh"
