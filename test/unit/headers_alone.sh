#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Every public header compiles without a warning in a program that includes this header only, and
# includes it twice, in C and in C++; and a program that includes headers of both editions of DAT is
# refused with one sentence. Prints TAP.

include=${srcdir:-.}/include
cc=${CC:-cc}
cxx=${CXX:-c++}
warnings='-Wall -Wextra -pedantic -Werror'
set -- "$include"/dat/*.h "$include"/dat2/*.h
number=0
failures=0

# compile COMMAND LANGUAGE STANDARD: the program on standard input
compile() {
	# shellcheck disable=SC2086 # $CC and $CXX may contain options
	$1 -x "$2" -std="$3" $warnings -I"$include" -fsyntax-only - 2>&1
}

# result HEADER STANDARD OUTPUT STATUS
result() {
	number=$((number + 1))
	if [ "$4" -eq 0 ]; then
		echo "ok $number - $1 alone in $2"
	else
		failures=$((failures + 1))
		echo "not ok $number - $1 alone in $2"
		echo "$3" | sed 's/^/# /'
	fi
}

[ -f "$1" ] || { echo "Bail out! no headers below $include"; exit 1; }
echo "1..$(($# * 4 + 6))"
cxx_missing=
echo 'int main() {}' | compile "$cxx" c++ c++11 >/dev/null || cxx_missing=y
for path; do
	header=${path#"$include"/}
	# a program must declare something, in case the header does not
	program=$(printf '#include <%s>\n#include <%s>\nextern int name;\n' "$header" "$header")
	for standard in c99 c11 c17; do
		output=$(echo "$program" | compile "$cc" c $standard)
		result "$header" $standard "$output" $?
	done
	if [ "$cxx_missing" ]; then
		number=$((number + 1))
		echo "ok $number - $header alone in c++11 # SKIP $cxx compiles no C++11"
	else
		output=$(echo "$program" | compile "$cxx" c++ c++11)
		result "$header" c++11 "$output" $?
	fi
done

# refused HEADER HEADER: a program that includes both
refused() {
	output=$(printf '#include <%s>\n#include <%s>\nextern int name;\n' "$1" "$2" |
		compile "$cc" c c99)
	number=$((number + 1))
	case $output in
	*'error: '*'headers of either dat/ or dat2/'*)
		echo "ok $number - $2 is refused after $1" ;;
	*)
		failures=$((failures + 1))
		echo "not ok $number - $2 is refused after $1"
		echo "$output" | sed 's/^/# /' ;;
	esac
}

refused dat/udat.h dat2/udat.h
refused dat/dat_error.h dat2/udat.h
refused dat/dat_registry.h dat2/dat_ib_extensions.h
refused dat2/udat.h dat/udat.h
refused dat2/dat_error.h dat/udat.h
refused dat2/dat_ib_extensions.h dat/dat_registry.h
[ $failures -eq 0 ]
