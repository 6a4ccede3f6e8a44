#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# dtest.sh for DAT 2.0: dtest2, libdat2 and the providers for it.
DAT_TEST_EDITION=2 exec bash "$(dirname -- "$(readlink -f -- "$0")")/dtest.sh"
