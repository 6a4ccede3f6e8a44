#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The manual pages: mandoc and groff have no warning; every public function has a page, whose
# synopsis, statuses, blocking and thread safety are those of the public headers; examples compile;
# the pages have every environment variable, range and debug bit of the code, and no other. Prints
# TAP.
#
# A page of a call that both editions of DAT have is about DAT 1.2, and its section "DAT 2.0" has
# what differs there. A page of a call that only DAT 2.0 has is about that.

# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
cd "${top_srcdir:-.}" || exit 99
cc=${CC:-cc}
headers1='include/dat/dat.h include/dat/udat.h include/dat/dat_registry.h'
headers2='include/dat2/dat.h include/dat2/udat.h include/dat2/dat_registry.h
	include/dat2/dat_ib_extensions.h'

# check NAME COMMAND...: it prints problems; its own errors are problems, too
check() {
	name=$1
	shift
	none "$name" "$("$@" 2>&1)"
}

# check_by TOOL NAME COMMAND...: skipped where there is no such tool
check_by() {
	tool=$1 name=$2
	shift
	if command -v "$tool" >/dev/null; then
		check "$@"
	else
		skip "$name" "there is no $tool"
	fi
}

# ---- what the headers say

# declared HEADER...: the functions that they declare, one per line, each parameter with type and
# name. dat_ia_open is a macro with the first parameters of dat_ia_openv. The macros of extensions
# have parameters without types.
declared() {
	cat "$@" | sed -e ':join' -e '/\\$/ { N; s/\\\n//; b join' -e '}' |
		sed 's/DAT_PROVIDER_INIT_FUNC_NAME(/dat_provider_init(/
			s/DAT_PROVIDER_FINI_FUNC_NAME(/dat_provider_fini(/
			s/^#define \(dat_ib_[a-z_]*([a-z_, \t]*)\).*/DAT_RETURN \1/
			s,/\*.*\*/,,; /\/\*/,/\*\//d; /^#/d' | tr '\n\t' '  ' | tr -s ' ' |
		grep -o '\(DAT_RETURN\|void\) dat_[a-z_]*([^)]*)' | grep -v dat_ib_collective |
		sed 'p; /dat_ia_openv(/!d; s/dat_ia_openv/dat_ia_open/; s/, DAT_UINT32 major.*/)/'
}

# commented HEADER...: for each function the lines of its comment, NAME TEXT. That of several
# macros stands before the first one.
commented() {
	awk '
		function comment_of(name,    i) {
			for (i = 1; i <= n; i++)
				print name " " line[i]
		}
		FNR == 1 { n = 0 }
		/^\/\*/ { n = 0 }
		/^ \*[ \t]/ { line[++n] = substr($0, 3) }
		/^(DAT_RETURN|void|static __inline__ DAT_RETURN) [a-zA-Z_]*\(/ {
			name = $0
			sub(/\(.*/, "", name)
			sub(/.* /, "", name)
			sub(/DAT_PROVIDER_INIT_FUNC_NAME/, "dat_provider_init", name)
			sub(/DAT_PROVIDER_FINI_FUNC_NAME/, "dat_provider_fini", name)
			comment_of(name)
			if (name == "dat_ia_openv")
				comment_of("dat_ia_open")
			n = 0
		}
		/^#define dat_ib_[a-z_]*\(/ {
			name = $2
			sub(/\(.*/, "", name)
			comment_of(name)
		}
	' "$@"
}

# documented COMMENTS HEADER: the statuses of that header that the comments name, NAME TYPE SUBTYPE.
# A comment that refers to another call has the statuses of that one, too: NAME like OTHER.
documented() {
	echo "$1" | awk -v errors="$2" '
		BEGIN {
			while ((getline text < errors) > 0)
				if (match(text, /DAT_[A-Z0-9_]+ = /))
					known[substr(text, RSTART, RLENGTH - 3)]
			prefix["DAT_INSUFFICIENT_RESOURCES"] = "DAT_RESOURCE_"
			prefix["DAT_INVALID_PARAMETER"] = "DAT_INVALID_"
			prefix["DAT_PROVIDER_NOT_FOUND"] = "DAT_"
			prefix["DAT_PRIVILEGES_VIOLATION"] = "DAT_PRIVILEGES_"
			prefix["DAT_PROTECTION_VIOLATION"] = "DAT_PROTECTION_"
		}
		function item_end(    rest, word, subtype, found, before) {
			if (!type)
				return
			before = type in prefix ? prefix[type] : type "_"
			gsub(/[ \t]+/, " ", item)
			rest = item
			found = item ~ /^:|without subtype/
			if (found)
				print call, type, "DAT_NO_SUBTYPE"
			while (match(rest, /[A-Z][A-Z0-9_]*(<state>)?/)) {
				word = substr(rest, RSTART, RLENGTH)
				rest = substr(rest, RSTART + RLENGTH)
				subtype = word ~ /^DAT_/ ? word : before word
				if (word ~ /^HANDLE[0-9]/)
					subtype = "DAT_INVALID_" word
				if (word == "EP_<state>")
					subtype = before "EP_state"
				else if (!(subtype in known) || subtype ~ /^DAT_[A-Z]+_FLAG/)
					continue
				print call, type, subtype
				found = 1
			}
			if (!found)
				print call, type, "DAT_NO_SUBTYPE"
			type = ""
		}
		{ rest = $0; sub(/^[^ ]* ?/, "", rest) }
		$1 != call || rest ~ /^ ?[A-Z]/ { item_end() }
		{ call = $1 }
		rest ~ /^ ?DAT_[A-Z_]+[,:]/ {
			match(rest, /DAT_[A-Z_]+/)
			type = substr(rest, RSTART, RLENGTH)
			item = substr(rest, RSTART + RLENGTH)
			if (!(type in known))
				type = ""
		}
		type && rest !~ /^ ?DAT_[A-Z_]+[,:]/ { item = item " " rest }
		/([Oo]therwise as|as for|as|[Tt]hose of|others of) dat_/ {
			match($0, /(as|as for|those of|others of) dat_[a-z_]*/)
			other = substr($0, RSTART, RLENGTH)
			sub(/.* /, "", other)
			print call, "like", other
		}
		END { item_end() }
	' | sort -u
}

# ---- what a page says

# described PAGE SECTION: the calls of a section in the form of declared.
described() {
	awk -v section="$2" '
		/^\.Sh / { inside = substr($0, 5) == section }
		!inside { next }
		/^\.Ft / { type = substr($0, 5) }
		/^\.Fo / { name = $2; call = type " " $2 "("; comma = "" }
		/^\.Fa "/ && call {
			parameter = substr($0, 6, length($0) - 6)
			if (name ~ /^dat_ib_/)
				sub(/.*[ *]/, "", parameter)
			call = call comma parameter
			comma = ", "
		}
		/^\.Fc/ { print call ")"; call = "" }
	' "$1"
}

names_of() {
	awk '/^\.Sh (LIBRARY|SYNOPSIS)/ { exit } /^\.Nm / { print $2 }' "$1"
}

# listed PAGE SECTION: the statuses that a section lists, TYPE SUBTYPE.
listed() {
	awk -v section="$2" '
		/^\.Sh / { inside = substr($0, 5) == section }
		inside && /^\.It Dv DAT_/ {
			sub(/^\.It Dv /, "")
			gsub(/ Ns Ar | Dv/, "")
			gsub(/,/, " ")
			print $1, (NF > 1 ? $2 : "DAT_NO_SUBTYPE")
			for (i = 3; i <= NF; i++)
				print $1, $i
		}
	' "$1" | sort -u
}

# The edition of DAT that a page is about.
edition_of() {
	name=$(names_of "$1" | head -n 1)
	case $declarations1 in
	*" $name("*) echo 1 ;;
	*) echo 2 ;;
	esac
}

# ---- the checks of a page

# About DAT 1.2, or 2.0: what the headers of that edition say.
about() {
	case $1 in
	1) declarations=$declarations1 comments=$comments1 documents=$documents1 ;;
	2) declarations=$declarations2 comments=$comments2 documents=$documents2 ;;
	esac
}

# NAME and SYNOPSIS have the same calls, and the headers declare them.
synopsis() {
	calls=$(described "$1" SYNOPSIS)
	[ "$(names_of "$1")" = "$(echo "$calls" | sed 's/.* \(dat_[a-z_]*\)(.*/\1/')" ] ||
		echo "NAME and SYNOPSIS differ"
	echo "$calls" | while IFS= read -r call; do
		echo "$declarations" | grep -Fqx -- "$call" || echo "not in the headers: $call"
	done
}

# The text says something of every parameter.
parameters() {
	awk '
		/^\.Fo/ { inside = 1 }
		/^\.Fc/ { inside = 0 }
		inside && /^\.Fa "/ && !/\.\.\./ {
			sub(/(\[\])?"$/, "")
			sub(/.*[ *"]/, "")
			name[$0]
		}
		!inside && /^\.(Fa|It|Pq)/ {
			gsub(/[*,()]/, " ")
			for (i = 2; i <= NF; i++)
				said[$i]
		}
		END {
			for (parameter in name)
				if (!(parameter in said))
					print "nothing about " parameter
		}
	' "$1"
}

# constants PAGE EDITION: the headers have every constant that a page names; a name that ends in _
# is a common prefix. A section "DAT 2.0" has the names of both editions.
constants() {
	awk -v edition="$2" '
		FILENAME ~ /names1$/ { first[$0]; known[$0]; all = all " " $0; next }
		FILENAME ~ /names2$/ { known[$0]; all = all " " $0; next }
		/^\.Sh / { both = edition == 2 || substr($0, 5) == "DAT 2.0" }
		/^\.Dt|^\.Ev|^\.It Ev/ { next }
		{
			while (match($0, /DAT_[A-Z0-9_]*/)) {
				name = substr($0, RSTART, RLENGTH)
				$0 = substr($0, RSTART + RLENGTH)
				is_prefix = name ~ /_$/ && index(all, " " name)
				is_known = both ? name in known : name in first
				if (!is_prefix && !is_known && name !~ /^DAT_DBG_/)
					print "not in the headers: " name
			}
		}
	' "$work/names1" "$work/names2" "$1" | sort -u
}

# The statuses of the headers for the calls of a page, and how many parameters these have; those
# of other calls that the headers refer to are in the file "like".
statuses_of_headers() {
	for name in $(names_of "$1"); do
		echo "$documents" | grep "^$name "
		parameters=$(echo "$declarations" | grep " $name(" | tr -cd , | wc -c)
		echo "- parameters $((parameters + 1))"
	done >"$work/header"
	grep ' like ' "$work/header" | while read -r _ _ other; do
		echo "$documents" | grep "^$other " | sed 's/^[^ ]*/-/'
	done >"$work/like"
}

# A page lists each status of the headers. The reverse holds except for those that the headers
# state once for all calls. Lines of the input are PLACE TYPE SUBTYPE: of a place "old" they need
# not be in the headers.
statuses_compare() {
	awk '
		FILENAME ~ /header$/ && $2 == "like" { next }
		FILENAME ~ /header$/ && $2 == "parameters" {
			most = $3 > most ? $3 : most
			next
		}
		FILENAME ~ /header$/ { header[$2 " " $3] = 1; next }
		FILENAME ~ /like$/ { like[$2 " " $3] = 1; next }
		{ page[$2 " " $3] = 1 }
		$1 != "old" { own[$2 " " $3] = 1 }
		END {
			for (status in header)
				if (!(status in page))
					print "only in the headers: " status
			for (status in own) {
				split(status, part)
				if (status in header || status in like)
					continue
				if (status == "DAT_INTERNAL_ERROR DAT_NO_SUBTYPE" ||
				    status == "DAT_INSUFFICIENT_RESOURCES DAT_RESOURCE_MEMORY" ||
				    part[1] == "DAT_INVALID_HANDLE")
					continue
				if (part[2] ~ /^DAT_INVALID_ARG/ && substr(part[2], 16) + 0 <= most)
					continue
				print "only on the page: " status
			}
		}
	' "$work/header" "$work/like" -
}

statuses() {
	statuses_of_headers "$1"
	listed "$1" ERRORS | sed 's/^/own /' | statuses_compare
}

# What a page of a call of DAT 1.2 says of DAT 2.0: a call with other parameters is declared in that
# section, which then lists all that depends on their order; other statuses are there or under
# ERRORS.
second_edition() {
	calls=$(described "$1" 'DAT 2.0')
	for name in $(names_of "$1"); do
		call=$(echo "$declarations2" | grep " $name(")
		shown=$(echo "$calls" | grep " $name(")
		if echo "$declarations1" | grep -Fqx -- "$call"; then
			[ -z "$shown" ] || echo "both editions declare $name alike"
		else
			[ "$shown" = "$call" ] || echo "DAT 2.0 has $call"
		fi
	done
	statuses_of_headers "$1"
	{
		listed "$1" ERRORS | sed "${calls:+/INVALID_PARAMETER/d;} s/^/old /"
		listed "$1" 'DAT 2.0' | sed 's/^/own /'
	} | statuses_compare
	conduct "$1"
}

# "Safe", "Unsafe" and "Blocks" of the headers, in the words of the page.
conduct() {
	text=$(tr '\n' ' ' <"$1")
	for name in $(names_of "$1"); do
		comment=$(echo "$comments" | sed -n "s/^$name //p")
		case $text in
		*"is unsafe"* | *"are unsafe"*) page=Unsafe ;;
		*"is safe"* | *"are safe"*) page=Safe ;;
		*) page=neither ;;
		esac
		header=$(echo "$comment" | grep -ow 'Safe\|Unsafe')
		[ "$page" = "${header:-neither}" ] ||
			echo "$name: $page on the page, ${header:-neither} in the header"
		case $text in
		*"call blocks"* | *"calls block "* | *"it blocks"*) page=blocks ;;
		*"not block"*) page='does not block' ;;
		*) page='does neither' ;;
		esac
		header='does not block'
		echo "$comment" | grep -qi '\<blocks\>' && header=blocks
		[ "$page" = "$header" ] || echo "$name: $page on the page, $header in the header"
	done
}

# The examples of a page compile, each as it is, with all its includes.
examples() {
	awk -v file="$work/example" '
		/^\.Sh / { inside = $2 == "EXAMPLES" }
		/^\.Ed/ { literal = 0 }
		inside && literal { gsub(/\\e/, "\\"); sub(/^\\&/, ""); print > (file n ".c") }
		inside && /^\.Bd -literal/ { literal = 1; n++ }
	' "$1"
	[ -e "$work/example1.c" ] || echo "there is none"
	for code in "$work"/example*.c; do
		$cc -std=c99 -D_GNU_SOURCE -Wall -Wextra -pedantic -Werror -Iinclude -fsyntax-only \
			"$code" 2>&1
	done
	rm -f "$work"/example*.c
}

# A page that is a link leads to one that has its name.
link() {
	target=doc/$(sed -n 's/^\.so //p' "$1" | sed 's,man7/,,')
	[ -f "$target" ] || { echo "no page $target"; return; }
	name=$(basename "$1")
	names_of "$target" | grep -qx "${name%.*}" || echo "$target does not have the name"
}

# The number behind a name in parentheses, and the type in a table of types, is that of the headers.
numbers() {
	awk '
		/^\.It Dv DAT_[A-Z0-9_]* Pq (0x)?[0-9a-f]+$/ { print $3, $5 }
		/^\.It 0x[0-9a-f]+ Ta Dv DAT_/ { print $5, $2 "0000" }
	' "$1" >"$work/numbers"
	[ "$(wc -l <"$work/numbers")" -gt 40 ] || echo "there are no numbers"
	for folder in dat dat2; do
		{
			echo "#include <$folder/udat.h>"
			sed 's/\(.*\) \(.*\)/_Static_assert(\1 == \2, "");/' "$work/numbers"
		} >"$work/numbers.c"
		$cc -std=gnu11 -Iinclude -fsyntax-only "$work/numbers.c" 2>&1 | grep error
	done
}

# ---- the checks of all pages

# Every public function has a page, and every page is installed.
all_there() {
	{
		echo "$declarations1"
		echo "$declarations2" | grep -vE ' dat_ib_(st|query|print)'
	} | sed 's/.* \(dat_[a-z_]*\)(.*/\1/' | sort -u | while read -r name; do
		[ -f "doc/man3/$name.3" ] || echo "no page for $name"
	done
	for page in doc/*.[157] doc/man3/*.3; do
		grep -qw "$page" Makefile.am || echo "Makefile.am does not install $page"
	done
}

# Our own pages that are referred to exist.
references() {
	grep -o '^\.\(It \)\?Xr [^ ]* [^ ]*' "$@" | while read -r place name section; do
		name=${name#Xr } file=${place%%:*}
		case $name in
		dat_*) target=doc/man3/$name.$section ;;
		dat | dat2 | dat-migration | dat-tutorial | udapl | dat.conf | libdapl* | dtest | \
			dtest2 | dapltest | dapltest2 | datinfo)
			target=doc/$name.$section ;;
		*) continue ;;
		esac
		[ -f "$target" ] || echo "$file: no page $name($section)"
	done
}

# wanted EDITION FILE...: what the rows of the conformance tests want of that edition, NAME TYPE
# SUBTYPE. The preprocessor leaves a structure of each row, in which constants have their names.
wanted() {
	edition=$1
	shift
	for file in "$@"; do
		$cc -E -P -D_GNU_SOURCE= -DDAT_EDITION="$edition" -Iinclude "$file"
	done | tr '\n' ' ' | sed 's/"\([^"\\]\|\\.\)*"//g; s/\.call = sizeof(&/\n/g' | awk '
		function want(text,    type, subtype, name) {
			type = ""
			subtype = "DAT_NO_SUBTYPE"
			while (match(text, /DAT_[A-Z0-9_]+/)) {
				name = substr(text, RSTART, RLENGTH)
				text = substr(text, RSTART + RLENGTH)
				if (name == "DAT_RETURN")
					continue
				if (type)
					subtype = name
				type = type ? type : name
			}
			if (type && type != "DAT_SUCCESS")
				print call, type, subtype
		}
		!/^dat_/ || /\.kind = ROW_(EVENT|COMPLETION|STATE)/ { next }
		{
			call = $0
			sub(/\).*/, "", call)
			rest = $0
			sub(/ };.*/, "", rest)
			others = rest
			sub(/.*\.want = /, "", rest)
			sub(/, \.run.*/, "", rest)
			want(rest)
			if (!sub(/.*\.on = /, "", others))
				next
			n = split(others, other, "{")
			for (i = 1; i <= n; i++)
				want(other[i])
		}
	' | sort -u
}

# conformance EDITION PAGE...: each is on the page of the call.
conformance() {
	edition=$1
	shift
	for page in "$@"; do
		# an operation of an extension is a macro that calls dat_extension_op
		for name in $(names_of "$page" | sed '/^dat_ib_/s/.*/dat_extension_op/'); do
			renumbered=
			[ "$edition" = 1 ] || renumbered=$(described "$page" 'DAT 2.0')
			listed "$page" ERRORS |
				sed "${renumbered:+/INVALID_PARAMETER/d;} s/^/$name /"
			[ "$edition" = 1 ] || listed "$page" 'DAT 2.0' | sed "s/^/$name /"
		done
	done >"$work/pages"
	case $edition in
	1) wanted 1 test/conform/sheet_*.c >"$work/wanted" ;;
	2) wanted 2 test/conform/sheet*_*.c >"$work/wanted" ;;
	esac
	[ -s "$work/wanted" ] || echo "no rows were found"
	awk '
		FILENAME ~ /pages$/ { page[$0]; next }
		{ any = $0; sub(/DAT_INVALID_STATE_EP_.*/, "DAT_INVALID_STATE_EP_state", any) }
		!($0 in page) && !(any in page) { print "not on its page: " $0 }
	' "$work/pages" "$work/wanted"
}

# ---- environment variables and debug bits

read_by_code() {
	grep -rho '"DA\(T\|PL\)_[A-Z0-9_]*"\|getenv("[A-Z0-9_]*")' dat udapl --include='*.c' \
		--exclude=attr2.c | grep -o '[A-Z][A-Z0-9_]*' | sort -u
}

# The page has every named attribute of the code, and no other.
named_attributes() {
	$cc -E -P -DDAT_EDITION=2 -D_GNU_SOURCE= -Iinclude -Iudapl udapl/core/attr2.c |
		grep -o '{ *"DA[A-Z0-9_]*",' | tr -cd 'A-Z0-9_\n' | sort -u >"$work/code"
	awk '/^\.Sh / { inside = /NAMED ATTRIBUTES/ } inside && sub(/^\.It Li /, "")' "$1" |
		sort -u >"$work/pages"
	[ -s "$work/code" ] || echo "no attributes were found"
	comm -23 "$work/code" "$work/pages" | sed 's/^/not on the page: /'
	comm -13 "$work/code" "$work/pages" | sed 's/^/not in the code: /'
}

variables() {
	sed -n 's/^\.It Ev //p' "$@" | sort -u >"$work/pages"
	read_by_code >"$work/code"
	comm -23 "$work/code" "$work/pages" | sed 's/^/on no page: /'
	comm -13 "$work/code" "$work/pages" | sed 's/^/not read by the code: /'
}

# "DAPL_ACK_RETRY 6 0 7": default and range of a table in env.c. A default that is no number is
# written -, as it is where the page says it in words.
ranges_of_code() {
	sed -n 's/^\t\t{ "\(DAPL_[A-Z_]*\)", &env->[a-z_]*, \(.*\) },$/\1|\2/p' \
		udapl/verbs/env.c | sed 's/, /|/g; s/|[^|0-9][^|]*|/|-|/
			s/1 << 16/65536/; s/INT_MAX/2147483647/' | tr '|' ' '
}

# A page writes ".It Ev NAME" and then "MIN to MAX, default N." or "MIN to MAX." in one line.
ranges() {
	ranges_of_code | while read -r name default least most; do
		text=$(sed -n "/^\\.It Ev $name\$/,/^\\.It/p" "$1" | grep "^$least to $most")
		case $default in
		-) [ "$text" ] || echo "$name: not \"$least to $most\"" ;;
		*) case $text in
			*"default $default"*) ;;
			*) echo "$name: not \"$least to $most, default $default\"" ;;
			esac ;;
		esac
	done
}

# The bits in the lists of a page are those of the enumeration in a header.
bits() {
	sed -n 's/^\t\(LOG\|DBG\)_[A-Z]* = 0x0*\([0-9a-f]*\),.*/\2/p' "$1" | sort -u >"$work/code"
	awk -v section="$3" '
		/^\.(Sh|Ss) / { inside = substr($0, 5) == section }
		inside && /^\.It 0x/ { sub(/^\.It 0x0*/, ""); print }
	' "$2" | sort -u >"$work/pages"
	comm -3 "$work/code" "$work/pages" | tr -d '\t' | sed 's/^/not in both: 0x/'
}

# The fixed texts of errors and warnings in files and the files below folders, one message per line,
# with ... in place of what varies.
messages_of_code() {
	# shellcheck disable=SC2046
	awk '
		/(log_(error|warn)|libdat_log)\(/ && !/define/ { call = ""; inside = 1 }
		inside { sub(/^[ \t]*/, ""); call = call $0 }
		inside && /;$/ {
			inside = 0
			sub(/.*(log_(error|warn)\(|libdat_log\((DBG_ERROR|kind), )/, "",
				call)
			text = ""
			while (match(call, /^"([^"\\]|\\.)*"/)) {
				text = text substr(call, 2, RLENGTH - 2)
				call = substr(call, RLENGTH + 1)
				sub(/^ */, "", call)
			}
			gsub(/\\"/, "\"", text)
			gsub(/%[-+ #0-9.]*(\*|l|z|ll)*[a-z]/, "...", text)
			print text
		}
	' $(find "$@" -name '*.c')
}

# Lines whose reason was found elsewhere are told by that.
without_reasons() {
	sed '/^\(open \)*\(\.\.\.\|open\): \.\.\.\(, not .*\)*$/d'
}

reasons_of() {
	grep -ho '"[a-z%][^"]* [^"]*"' "$@" | tr -d '"' | sed 's/%[0-9]*[a-z]/.../g'
}

# What the core says is on the page of libdaplcma, to which that of libdaplofi refers.
messages_of_libdaplcma() {
	# shellcheck disable=SC2046
	messages_of_code $(find udapl/* -prune ! -path udapl/ofi) | without_reasons
	reasons_of udapl/host/nodes.c udapl/host/params.c
}

messages_of_libdaplofi() {
	messages_of_code udapl/ofi | without_reasons
}

# The reasons why a line of dat.conf is ignored are logged elsewhere than where they are found.
messages_of_registry() {
	messages_of_code dat | grep '[a-z]'
	grep -o '"[a-zA-Z][^"]* [^"]*"' dat/conf.c | tr -d '"'
}

# messages OF PAGE: each of them has an entry in DIAGNOSTICS of the page, and each entry is in the
# code. An entry is a piece of the message, with ... in place of what varies.
messages() {
	"messages_of_$1" >"$work/code"
	awk '/^\.Sh / { inside = $2 == "DIAGNOSTICS" } inside && sub(/^\.It Li "/, "") {
		sub(/"$/, ""); print }' "$2" >"$work/pages"
	while IFS= read -r text; do
		while IFS= read -r entry; do
			case $text in
			*"$entry"*) continue 2 ;;
			esac
		done <"$work/pages"
		echo "on no page: $text"
	done <"$work/code"
	while IFS= read -r entry; do
		grep -qF "$entry" "$work/code" || echo "not in the code: $entry"
	done <"$work/pages"
}

# The rows of the table of calls by state that the code decides by its table of moves.
moves() {
	awk '
		FILENAME ~ /conn.c$/ && match($0, /\[DAT_EP_STATE_[A-Z_]*\]/) {
			state = substr($0, RSTART + 14, 3)
			state = state == "DIS" && /PENDING/ ? "D_P" : state
		}
		FILENAME ~ /conn.c$/ && match($0, /\[ON_[A-Z_]*\]/) {
			kind = /STAY_HERE/ ? "0" : "+"
			move[state " " substr($0, RSTART + 1, RLENGTH - 2)] = kind
		}
		FILENAME ~ /conn.c$/ { next }
		$1 == "UNC" { columns = split($0, column); next }
		columns && $1 in trigger && NF == columns + 1 {
			for (i = 1; i <= columns; i++) {
				at = column[i] " " trigger[$1]
				want = at in move ? move[at] : "-"
				if (want == "0" && always[$1])
					want = "+"
				if (column[i] " " own[$1] in move)
					want = "*"
				if ($(i + 1) != want)
					print $1 " in " column[i] ": " $(i + 1) ", code: " want
			}
			rows++
		}
		BEGIN {
			trigger["dat_ep_connect"] = "ON_CONNECT"
			trigger["dat_rsp_create"] = "ON_RESERVE"
			trigger["dat_cr_accept"] = "ON_ACCEPT"
			own["dat_cr_accept"] = "ON_ACCEPT_OWN"
			trigger["dat_ep_disconnect"] = "ON_ABRUPT"
			trigger["dat_ep_reset"] = "ON_RESET"
			trigger["dat_ep_free"] = "ON_FREE"
			always["dat_ep_free"] = 1 # it ends every state
		}
		END { if (rows != 6) print "not 6 rows, but " rows }
	' udapl/endpoint/conn.c "$1"
}

# The README leads to the pages that say all.
from_readme() {
	for page in 'dat(7)' 'dat2(7)' 'libdaplcma(7)' 'libdaplofi(7)' 'dat.conf(5)' \
		'datinfo(1)' 'dtest(1)' 'dapltest(1)'; do
		grep -qF "$page" README.md || echo "README.md does not name $page"
	done
}

work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
set -- doc/man3/*.3 doc/*.[157]
[ -f "$1" ] || { echo "Bail out! no pages below doc/man3"; exit 1; }
links=$(grep -l '^\.so ' "$@")
pages=$(grep -L '^\.so ' doc/man3/*.3)
others=$(grep -L '^\.so ' doc/*.[157])
with_examples=$(grep -l '^\.Sh EXAMPLES' doc/man3/*.3)
# shellcheck disable=SC2086 # paths without blanks
{
	declarations1=$(declared $headers1) declarations2=$(declared $headers2)
	comments1=$(commented $headers1) comments2=$(commented $headers2)
}
documents1=$(documented "$comments1" include/dat/dat_error.h)
documents2=$(documented "$comments2" include/dat2/dat_error.h)
grep -oh 'DAT_[A-Z0-9_]*' include/dat/*.h | sort -u >"$work/names1"
grep -oh 'DAT_[A-Z0-9_]*' include/dat2/*.h | sort -u >"$work/names2"
count() {
	echo $#
}
# shellcheck disable=SC2086 # paths without blanks
{
	once=23
	both=$(for page in $pages; do [ "$(edition_of "$page")" = 2 ] || echo "$page"; done)
	echo "1..$((6 * $(count $pages) + $(count $both $others $links $with_examples) + once))"
	for page in $pages $others; do
		check_by mandoc "$page is good mdoc" mandoc -Tlint -W warning "$page"
	done
	check_by groff "groff formats all pages without a warning" \
		groff -ww -mandoc -Tutf8 -z $pages $others
	for page in $pages; do
		edition=$(edition_of "$page")
		about "$edition"
		check "$page declares its calls as the headers do" synopsis "$page"
		check "$page says something of every parameter" parameters "$page"
		check "$page uses names of the headers" constants "$page" "$edition"
		check "$page lists the statuses of the headers" statuses "$page"
		check "$page blocks and is safe as the headers say" conduct "$page"
	done
	about 2
	for page in $both; do
		check "$page says what differs in DAT 2.0" second_edition "$page"
	done
	for page in $links; do
		check "$page leads to its page" link "$page"
	done
	for page in $with_examples; do
		check "$page has examples that compile" examples "$page"
	done
	check "every function has a page, and every page is installed" all_there
	check "the pages have the statuses of the conformance tests" conformance 1 $both
	check "the pages have those of DAT 2.0" conformance 2 $pages
	check "every page referred to exists" references $pages $others
	check "dat(7) uses names of the headers" constants doc/dat.7 1
	check "dat2(7) uses names of the headers" constants doc/dat2.7 2
	check "dat(7) has the numbers of the headers of both editions" numbers doc/dat.7
	for page in doc/dat-migration.7 doc/dat-tutorial.7; do
		check "$page uses names of the headers" constants "$page" 2
	done
	check "dat2(7) has examples that compile" examples doc/dat2.7
	check "dat2(7) has the named attributes of the code" named_attributes doc/dat2.7
	check "dat(7) has the moves of endpoints of the code" moves doc/dat.7
	check "libdaplcma(7) uses names of the headers" constants doc/libdaplcma.7 2
	check "libdaplofi(7) uses names of the headers" constants doc/libdaplofi.7 2
	check "the pages have the variables of the code" variables \
		doc/libdaplcma.7 doc/libdaplofi.7 doc/dat.conf.5
	check "libdaplcma(7) has defaults and ranges of the code" ranges doc/libdaplcma.7
	check "libdaplcma(7) has the debug bits of the code" \
		bits udapl/base/log.h doc/libdaplcma.7 'Debug bits'
	check "dat.conf(5) has the debug bits of the code" \
		bits dat/log.h doc/dat.conf.5 'Debug bits'
	check "libdaplcma(7) has the messages of the code" messages libdaplcma doc/libdaplcma.7
	check "libdaplofi(7) has the messages of the code" messages libdaplofi doc/libdaplofi.7
	check "dat.conf(5) has the messages of the code" messages registry doc/dat.conf.5
	check "README.md names the pages" from_readme
}
