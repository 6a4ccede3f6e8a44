#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# test/habits.md and test/situations.md name only cases that exist, and at least one for each item.
# Prints TAP.

# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
cd "${top_srcdir:-.}/test" || exit 99

# items FILE: each item, and after it one x for each of its cases
items() {
	awk '
		/^- / { if (item) print item, cases; item = $0; cases = "" }
		/^  - / { cases = cases "x" }
		END { print item, cases }
	' "$1"
}

conform=${top_builddir:-..}/test/conform/conform
[ ! -x "$conform" ] || rows=$("$conform" --list)
[ ! -x "${conform}2" ] || rows2=$("${conform}2" --list) # of DAT 2.0

# unknown FILE: a case is a function of a program, a row of the sheet (if there is Check, without
# which there is no sheet), or the name of a result in a script.
unknown() {
	sed -n 's/^  - .\(.*\).$/\1/p' "$1" | sort -u |
		while IFS=: read -r file name; do
			case $file in
			conform) [ -z "${rows:-}" ] || printf '%s\n' "$rows" |
				sed 's/ -> .*//' | grep -Fqx -- "$name" ;;
			conform2) [ -z "${rows2:-}" ] || printf '%s\n' "$rows2" |
				sed 's/ -> .*//' | grep -Fqx -- "$name" ;;
			*.c) grep -qs "^START_TEST($name)\$" "$file" ;;
			*) grep -Fqs -- "$name" "$file" ;;
			esac || echo "$file:$name"
		done
}

# In each group of situations the numbers go up by one from 1.
gaps() {
	awk '/^- / {
		group = substr($2, 1, 1)
		want[group]++
		if ($2 != group want[group] ":")
			print $2, "is not", group want[group]
	}' situations.md
}

echo 1..6
none 'every case of habits.md exists' "$(unknown habits.md)"
none 'every habit has a case' "$(items habits.md | grep -v ' xx*$')"
count=$(items habits.md | wc -l)
none "the list is read ($count habits)" "$([ "$count" -ge 80 ] || echo "$count habits")"
none 'every case of situations.md exists' "$(unknown situations.md)"
none 'every situation has a case' "$(items situations.md | grep -v ' xx*$'; gaps)"
count=$(items situations.md | wc -l)
none "the list is read ($count situations)" "$([ "$count" -eq 149 ] || echo "$count")"
