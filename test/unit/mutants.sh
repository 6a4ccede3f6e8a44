#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# test/mutation/mutants: each mutation applies to the code as it is, and its tests exist. Whether
# they find it is for "make mutants". Prints TAP.

cd "${top_srcdir:-.}" || exit 99
list=test/mutation/mutants

result() { # NUMBER NAME OFFENDERS: a list of none is good
	if [ -z "$3" ]; then
		echo "ok $1 - $2"
	else
		echo "not ok $1 - $2"
		echo "$3" | sed 's/^/# /'
		failed=1
	fi
}

# Makefile.am names each program, and each script.
unknown_tests() {
	sed -n 's/^tests //p' "$list" | tr ' ' '\n' | sort -u |
		while read -r test; do
			grep -qE "(^|[[:space:]])test/$test([[:space:]]|\$)" Makefile.am ||
				echo "$test"
		done
}

echo 1..3
failed=
count=$(grep -c '^mutant ' "$list")
result 1 "the list is read ($count mutations)" "$([ "$count" -ge 300 ] || echo "$count mutations")"
result 2 'each mutation is complete, and applies to its file' \
	"$(awk -v root=. -f test/mutation/mutants.awk "$list")"
result 3 'the tests of each mutation exist' "$(unknown_tests)"
[ -z "$failed" ]
