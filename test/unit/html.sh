#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The guide and the manual pages for a browser, as `make html` has doc/to-html write them: all of
# them are there, their links lead somewhere, and pictures replace drawings. Prints TAP.

# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
cd "${top_srcdir:-.}" || exit 99
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
pages=$(echo doc/*.[1-8] doc/man3/*.3)

# dead_links FOLDER: those to files or anchors that do not exist
dead_links() {
	(cd "$1" && ls && awk '
		{
			while (match($0, / (id|href|src)="[^"]*"/)) {
				kind = substr($0, RSTART + 1, 2)
				value = substr($0, RSTART, RLENGTH - 1)
				$0 = substr($0, RSTART + RLENGTH)
				sub(/^[^"]*"/, "", value)
				if (kind == "id")
					print FILENAME "#" value
				else if (value !~ /^(https?|mailto):/)
					print FILENAME " " (value ~ /^#/ ? FILENAME value : value)
			}
		}' ./*.html | sed 's|\./||g') | sort -u | awk '
		NF == 1 { known[$1]; next }
		{ from[$2] = $1 }
		END {
			for (target in from)
				if (!(target in known))
					print from[target] ": " target
		}'
}

# elsewhere FOLDER: pages of this project, which are here, but to which a link leads elsewhere
elsewhere() { grep -o 'href="https://manpages[^"]*/\(dat\|libdapl\|dtest\)[^"]*' "$1"/*.html; }

# not_shown FOLDER: pictures that no page shows, and drawings that a picture should have replaced
not_shown() {
	for picture in doc/*.svg; do
		grep -q "src=\"${picture##*/}\" alt=\"[^\"]" "$1"/*.html || echo "$picture"
	done
	grep -l '@[a-z]*\.svg@\|+-----+  *+-----+' "$1"/*.html
}

# says_what_it_needs TOOL: without it, in one sentence
says_what_it_needs() {
	bin=$tmp/without_$1
	mkdir "$bin"
	for tool in awk basename cat cp date grep head mandoc lowdown mkdir rm sed sh sort; do
		[ $tool = "$1" ] || ln -s "$(command -v $tool || echo /bin/true)" "$bin"
	done
	# shellcheck disable=SC2086 # a list
	PATH=$bin doc/to-html . "$tmp/nothing" $pages >"$tmp/out" 2>&1
	echo "$? $(cat "$tmp/out")"
}

echo 1..6
for tool in mandoc lowdown; do
	same "without $tool there is one sentence, and nothing else" "$(says_what_it_needs $tool)" \
		"1 pages for a browser need $tool (Debian: apt-get install $tool)"
done
if ! command -v mandoc >/dev/null || ! command -v lowdown >/dev/null; then
	for name in files links names pictures; do
		skip "the $name of the pages" 'there is no mandoc or no lowdown'
	done
	exit
fi
# shellcheck disable=SC2086 # a list
same 'the files are those of the list' \
	"$(doc/to-html . "$tmp/html" $pages 2>&1; ls "$tmp/html")" \
	"$(doc/to-html --list . $pages | LC_ALL=C sort -u)"
none 'links lead to files and to anchors in them' "$(dead_links "$tmp/html" 2>&1)"
none 'pages of this project are linked here' "$(elsewhere "$tmp/html" | head)"
none 'pictures are shown, in the place of drawings' "$(not_shown "$tmp/html")"
[ $failures -eq 0 ]
