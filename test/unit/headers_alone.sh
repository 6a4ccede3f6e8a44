#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Every public header compiles without a warning in a program that includes this header only, and
# includes it twice, in C and in C++; and a program that includes headers of both editions of DAT is
# refused with one sentence. Prints TAP.

# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
include=${srcdir:-.}/include
cc=${CC:-cc}
cxx=${CXX:-c++}
warnings='-Wall -Wextra -pedantic -Werror'
set -- "$include"/dat/*.h "$include"/dat2/*.h

# compile COMMAND LANGUAGE STANDARD: the program on standard input
compile() {
	# shellcheck disable=SC2086 # $CC and $CXX may contain options
	$1 -x "$2" -std="$3" $warnings -I"$include" -fsyntax-only - 2>&1
}

# result HEADER STANDARD OUTPUT STATUS
result() {
	report "$4" "$1 alone in $2" "$3"
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
		skip "$header alone in c++11" "$cxx compiles no C++11"
	else
		output=$(echo "$program" | compile "$cxx" c++ c++11)
		result "$header" c++11 "$output" $?
	fi
done

# refused HEADER HEADER: a program that includes both
refused() {
	output=$(printf '#include <%s>\n#include <%s>\nextern int name;\n' "$1" "$2" |
		compile "$cc" c c99)
	printf '%s\n' "$output" | grep -q 'error: .*headers of either dat/ or dat2/'
	report $? "$2 is refused after $1" "$output"
}

refused dat/udat.h dat2/udat.h
refused dat/dat_error.h dat2/udat.h
refused dat/dat_registry.h dat2/dat_ib_extensions.h
refused dat2/udat.h dat/udat.h
refused dat2/dat_error.h dat/udat.h
refused dat2/dat_ib_extensions.h dat/dat_registry.h
[ $failures -eq 0 ]
