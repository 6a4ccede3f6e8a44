#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The texts in Markdown: their links lead to files that a browser shows, and the files and functions
# exist that the design names. The pictures: they are good XML, with names that the headers have.
# Prints TAP.

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

# Pages for man are not shown. A word such as dat(7) becomes a link where they are (doc/to-html).
links_to_roff() {
	# shellcheck disable=SC2086 # a list
	grep -on ']([^):]*\.[1-8])\|]([^):]*man3/*)' $texts
}

# Names of the pictures that the headers don't have. Classes say what is left out of a name.
unknown_names() {
	cat include/dat/*.h include/dat2/*.h >"$headers"
	for picture in doc/connection.svg doc/objects.svg doc/states.svg; do
		{
			grep -o 'dat_[a-z_]*\|DAT_[A-Z_]*' "$picture"
			for kind in state:DAT_EP_STATE event:DAT_CONNECTION_EVENT; do
				grep "class=\"[a-z ]*${kind%:*}\"" "$picture" |
					sed "s|.*>\([A-Z_]*\)</text>|${kind#*:}_\1|"
			done
		} | sort -u | while read -r name; do
			case $name in
			*_) grep -q "\<$name" "$headers" ;;
			*) grep -qw "$name" "$headers" ;;
			esac || echo "$picture: $name"
		done
	done
}

# States that their picture lacks; those of endpoints that are not configured are never reported.
states_not_shown() {
	sed -n '/UNCONFIGURED/d; s/^\tDAT_EP_STATE_\([A-Z_]*\)[ ,].*/\1/p' include/dat/dat.h |
		while read -r state; do
			grep -q "class=\"state\".*>$state<" doc/states.svg || echo "$state"
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

headers=$(mktemp) || exit 99
trap 'rm -f "$headers"' EXIT
echo 1..7
none 'links lead to files' "$(dead_links)"
none 'the sources exist that the design names' "$(missing_sources)"
none 'the functions exist that the design names' "$(missing_functions)"
none 'links lead to what a browser shows' "$(links_to_roff)"
none 'the headers have the names of the pictures' "$(unknown_names)"
none 'the picture of the states has every state' "$(states_not_shown)"
if command -v xmllint >"$headers"; then
	none 'the pictures are well-formed' "$(xmllint --noout doc/*.svg 2>&1)"
else
	skip 'the pictures are well-formed' 'there is no xmllint'
fi
[ $failures -eq 0 ]
