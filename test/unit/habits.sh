#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# test/habits.md names only cases that exist, and at least one for each habit. Prints TAP.

cd "${top_srcdir:-.}/test" || exit 99

# Each habit, and after it one x for each of its cases.
habits() {
	awk '
		/^- / { if (habit) print habit, cases; habit = $0; cases = "" }
		/^  - / { cases = cases "x" }
		END { print habit, cases }
	' habits.md
}

# A case is a function of a program, or the name of a result in a script.
unknown() {
	sed -n 's/^  - .\(.*\).$/\1/p' habits.md | sort -u |
		while IFS=: read -r file name; do
			case $file in
			*.c) grep -qs "^START_TEST($name)\$" "$file" ;;
			*) grep -Fqs -- "$name" "$file" ;;
			esac || echo "$file:$name"
		done
}

result() { # NUMBER NAME OFFENDERS
	if [ -z "$3" ]; then
		echo "ok $1 - $2"
	else
		echo "not ok $1 - $2"
		echo "$3" | sed 's/^/# /'
	fi
}

echo 1..3
result 1 'every case of habits.md exists' "$(unknown)"
result 2 'every habit has a case' "$(habits | grep -v ' xx*$')"
count=$(habits | wc -l)
result 3 "the list is read ($count habits)" "$([ "$count" -ge 80 ] || echo "$count habits")"
