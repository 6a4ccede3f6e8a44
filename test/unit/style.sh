#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The style that a program can check: layout, width, licence lines, and names that are defined once.
# Prints TAP.

# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
cd "${top_srcdir:-.}" || exit 99
LC_ALL=C
export LC_ALL

# ---- the files: what a build leaves in these folders is no part of them

folders='include dat udapl tools dtest dapltest datinfo examples doc test'

below() { # FIND-ARGUMENT...
	# shellcheck disable=SC2086 # a list
	find $folders \( -path test/fuzz/corpus -o -name .libs \) -prune -o \
		-type f "$@" -print | sort
}

c_files=$(below \( -name '*.[ch]' -o -name '*.cc' \))
man_files=$(below -name '*.[1-9]')
script_files="autogen.sh $(below -name '*.sh')"
for file in .ci/run $(below ! -name '*.*'); do # libtool's begin with a blank after the !
	[ "$(head -c 3 "$file")" = '#!/' ] && script_files="$script_files $file"
done
make_files='Makefile.am configure.ac'
map_files=$(below -name '*.map')
# the tables of doc/performance*.md are written by a program, as wide as their figures
text_files="dat.conf dat.pc.in dat2.pc.in $(echo *.md) doc/performance.in doc/performance-sizes.in
	$(below -name '*.md' ! -path 'doc/performance*.md')"

# ---- the checks

formatted() {
	# shellcheck disable=SC2086 # a list
	clang-format --dry-run -Werror $c_files 2>&1 | grep -E '(error|warning):'
}

# A tab reaches to the next of the columns 8, 16, ...; the bytes that continue a UTF-8 character
# have no width.
too_wide() {
	# shellcheck disable=SC2086 # a list
	awk '
		FNR == 1 { line = 0 }
		{
			gsub(/[\200-\277]/, "")
			n = split($0, parts, "\t")
			width = 0
			for (i = 1; i < n; i++)
				width = int((width + length(parts[i])) / 8 + 1) * 8
			if (width + length(parts[n]) > 100)
				print FILENAME ":" FNR ": " width + length(parts[n]) " columns"
		}
	' $c_files $man_files $script_files $make_files $map_files $text_files
}

# begins_with LINE FILE...: the first line is LINE, or the second after an interpreter's name
begins_with() {
	want=$1
	shift
	want=$want awk '
		FNR == 1 { first = 1 }
		FNR == 1 && /^#!/ { next }
		first && $0 != ENVIRON["want"] { print FILENAME ": begins with: " $0 }
		{ first = 0 }
	' "$@"
}

# Names of functions and structs that product files define more than once, save main, what each
# transport defines, the public calls, and what DAT 2.0 has of its own: files whose names end in 2,
# and what is compiled for that edition. A function is defined where a line that begins in column 0
# has a name before its first parenthesis and a line "{" follows, as clang-format leaves it.
defined_twice() {
	# shellcheck disable=SC2046 # a list
	awk '
		function found(kind, name) {
			if (edition || FILENAME ~ /2\.c$/ || name ~ /^(main$|tp_|up_|dats?_)/)
				return
			where[kind " " name] = where[kind " " name] " " FILENAME ":" FNR
			if (times[kind " " name]++ == 1)
				twice[++n] = kind " " name
		}
		FNR == 1 { head = ""; edition = 0 }
		/^#if DAT_EDITION == 2/ { edition = 1 }
		/^#(else|endif)/ { edition = 0 }
		/^(static )?(const )?(struct|union|enum) [a-z_0-9]+ \{/ {
			match($0, /(struct|union|enum) [a-z_0-9]+/)
			split(substr($0, RSTART, RLENGTH), words, " ")
			found(words[1], words[2])
		}
		/^[a-zA-Z_].*\(/ {
			head = $0
			gsub(/__attribute__ *\(\([^)]*(\([^)]*\))?[^)]*\)\)/, "", head)
		}
		/^[#}]/ { head = "" }
		/^\{/ && match(head, /[a-zA-Z_0-9]+\(/) {
			found("function", substr(head, RSTART, RLENGTH - 1))
			head = ""
		}
		END {
			for (i = 1; i <= n; i++)
				print twice[i] ":" where[twice[i]]
		}
	' $(echo "$c_files" | grep -E '^(dat|udapl|tools|dtest|dapltest|datinfo|examples)/')
}

echo 1..6
case $(clang-format --version 2>/dev/null) in
*'version 14.'*) none 'clang-format agrees with every C file' "$(formatted)" ;;
*) skip 'clang-format agrees with every C file' 'no clang-format 14 (Debian: clang-format-14)' ;;
esac
none 'no line has more than 100 columns' "$(too_wide)"
# shellcheck disable=SC2086 # lists
{
	none 'C files begin with their licence' \
		"$(begins_with '/* SPDX-License-Identifier: BSD-2-Clause */' $c_files $map_files)"
	none 'scripts begin with their licence' \
		"$(begins_with '# SPDX-License-Identifier: BSD-2-Clause' $script_files $make_files)"
	none 'manual pages begin with their licence' \
		"$(begins_with '.\" SPDX-License-Identifier: BSD-2-Clause' $man_files)"
}
none 'no function or struct is defined twice' "$(defined_twice)"
[ $failures -eq 0 ]
