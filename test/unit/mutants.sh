#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# test/mutation/mutants: each mutation applies to the code as it is, and its tests exist. Whether
# they find it is for "make mutants". Prints TAP.

# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
cd "${top_srcdir:-.}" || exit 99
list=test/mutation/mutants

# Makefile.am names each program, and each script.
unknown_tests() {
	sed -n 's/^tests //p' "$list" | tr ' ' '\n' | sort -u |
		while read -r test; do
			grep -qE "(^|[[:space:]])test/$test([[:space:]]|\$)" Makefile.am ||
				echo "$test"
		done
}

echo 1..3
count=$(grep -c '^mutant ' "$list")
none "the list is read ($count mutations)" "$([ "$count" -ge 300 ] || echo "$count mutations")"
none 'each mutation is complete, and applies to its file' \
	"$(awk -v root=. -f test/mutation/mutants.awk "$list")"
none 'the tests of each mutation exist' "$(unknown_tests)"
[ "$failures" -eq 0 ]
