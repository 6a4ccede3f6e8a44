#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The texts in Markdown: their links lead to files, and the files and functions exist that the
# design names. Prints TAP.

# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
cd "${top_srcdir:-.}" || exit 99
texts="$(echo *.md) $(find doc examples test -name '*.md' ! -path '*/corpus/*' | sort)"
design='doc/design.md doc/design-ofi.md'

# A link leads to a file or folder beside the text that has it.
dead_links() {
	for text in $texts; do
		grep -o '](\([^)#]*\))' "$text" | sed 's/](//; s/)$//' | grep -v '^https\?:' |
			while read -r target; do
				[ -e "$(dirname "$text")/$target" ] || echo "$text: $target"
			done
	done
}

# What looks like the name of a source: from the top, or below udapl/. A name without a folder is
# that of any file.
missing_sources() {
	# shellcheck disable=SC2016,SC2086 # they are no commands; a list
	grep -o '`[a-z_0-9/]*\.\(c\|h\|sh\)`' $design | tr -d '`' | sort -u |
		while IFS=: read -r text name; do
			[ -e "$name" ] || [ -e "udapl/$name" ] ||
				[ -n "$(find udapl dat include -name "$name" 2>/dev/null)" ] ||
				echo "$text: $name"
		done
}

# The words of a walk that are names of functions: all that has an underline and is in lower case.
missing_functions() {
	# shellcheck disable=SC2016,SC2086 # they are no commands; a list
	sed 's/`[^`]*\.[a-z]*`//g' $design |
		grep -oE '\b[a-z][a-z0-9]*(_[a-z0-9]+)+\b' | sort -u |
		grep -vE '^(rdma|ibv|fi|pthread)_' | while read -r name; do
		grep -rqw -- "$name" dat udapl include || echo "$name"
	done
}

echo 1..3
none 'links lead to files' "$(dead_links)"
none 'the sources exist that the design names' "$(missing_sources)"
none 'the functions exist that the design names' "$(missing_functions)"
[ $failures -eq 0 ]
