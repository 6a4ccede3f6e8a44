#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The manual pages: mandoc has no warning, synopses and names agree with the public headers, and
# examples compile. Prints TAP.

cd "${top_srcdir:-.}" || exit 99
cc=${CC:-cc}
number=0

# result NAME PROBLEMS: a list of none is good
result() {
	number=$((number + 1))
	if [ -z "$2" ]; then
		echo "ok $number - $1"
	else
		echo "not ok $number - $1"
		echo "$2" | sed 's/^/# /'
	fi
}

lint() {
	if command -v mandoc >/dev/null; then
		result "$1 is good mdoc" "$(mandoc -Tlint -W warning "$1" 2>&1)"
	else
		number=$((number + 1))
		echo "ok $number - $1 is good mdoc # SKIP no mandoc (Debian: mandoc)"
	fi
}

# The calls that the headers declare, one per line, each parameter with type and name.
declared() {
	sed 's,/\*.*\*/,,; /\/\*/,/\*\//d' include/dat/dat.h include/dat/udat.h | tr '\n\t' '  ' |
		grep -o 'DAT_RETURN dat_[a-z_]*([^)]*)' | tr -s ' '
}

# The same for the synopsis of a page.
described() {
	awk '
		/^\.Ft / { type = substr($0, 5) }
		/^\.Fo / { call = type " " $2 "("; comma = "" }
		/^\.Fa "/ && call { call = call comma substr($0, 6, length($0) - 6); comma = ", " }
		/^\.Fc/ { print call ")"; call = "" }
	' "$1"
}

# NAME and SYNOPSIS have the same calls, and the headers declare them.
synopsis() {
	names=$(awk '/^\.Sh LIBRARY/ { exit } /^\.Nm / { print $2 }' "$1")
	calls=$(described "$1")
	[ "$names" = "$(echo "$calls" | sed 's/.* \(dat_[a-z_]*\)(.*/\1/')" ] ||
		echo "NAME and SYNOPSIS differ"
	echo "$calls" | while IFS= read -r call; do
		echo "$declarations" | grep -Fqx -- "$call" || echo "not in the headers: $call"
	done
}

# The headers have every constant that a page names; a name that ends in _ is a common prefix.
constants() {
	grep -o 'DAT_[A-Z0-9_]*' "$1" | sort -u | while read -r name; do
		case $name in
		"$(basename "$1" .3 | tr '[:lower:]' '[:upper:]')") ;;
		*_) grep -q "\\<$name" include/dat/*.h || echo "nothing begins with $name" ;;
		*) grep -qw "$name" include/dat/*.h || echo "unknown: $name" ;;
		esac
	done
}

# The example of a page compiles as it is, with all its includes.
example() {
	code=$(awk '
		/^\.Sh / { inside = $2 == "EXAMPLES" }
		/^\.Ed/ { literal = 0 }
		inside && literal
		/^\.Bd -literal/ { literal = 1 }
	' "$1" | sed 's/\\e/\\/g')
	[ "$code" ] || echo "there is none"
	echo "$code" |
		$cc -x c -std=c99 -Wall -Wextra -pedantic -Werror -Iinclude -fsyntax-only - 2>&1
}

set -- doc/man3/*.3
[ -f "$1" ] || { echo "Bail out! no pages below doc/man3"; exit 1; }
declarations=$(declared)
examples=$(grep -l '^\.Sh EXAMPLES' "$@")
# shellcheck disable=SC2086 # paths without blanks
echo "1..$(($# * 3 + 2 + $(printf '%s\n' $examples | wc -l)))"
lint doc/dtest.1
lint doc/dat.conf.5
for page; do
	lint "$page"
	result "$page declares its calls as the headers do" "$(synopsis "$page")"
	result "$page uses names of the headers" "$(constants "$page")"
done
for page in $examples; do
	result "$page has an example that compiles" "$(example "$page")"
done
