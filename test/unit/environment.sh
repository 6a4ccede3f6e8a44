#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The libraries read the environment and never write it, not for a moment either: other threads of
# the program may read it meanwhile, with getenv, which takes no lock. Prints TAP.

cd "${top_builddir:-.}" || exit 99
if ! command -v readelf >/dev/null; then
	echo "1..0 # SKIP no readelf (Debian: binutils)"
	exit 0
fi

# but those that have no code: old names of a provider
libraries=$(find dat/.libs udapl/.libs -name 'lib*.so.[0-9]' ! -name 'libdaplofa.*' \
	! -name 'libdaploscm.*' ! -name 'libdaploucm.*' 2>/dev/null | sort)

# needed LIBRARY PATTERN: the functions of the C library that it calls, and that match
needed() {
	readelf --dyn-syms --wide "$1" |
		awk '$7 == "UND" { sub(/@.*/, "", $8); print $8 }' | grep -xE "$2"
}

echo "1..$(($(echo "$libraries" | wc -l) * 2))"
count=0
for library in $libraries; do
	count=$((count + 2))
	if [ -n "$(needed "$library" '(secure_)?getenv')" ]; then
		echo "ok $((count - 1)) - $library: its calls are read"
	else
		echo "not ok $((count - 1)) - $library: its calls are read"
	fi
	found=$(needed "$library" 'setenv|unsetenv|putenv|clearenv|environ|__environ' |
		tr '\n' ' ')
	if [ -z "$found" ]; then
		echo "ok $count - $library: nothing writes the environment"
	else
		echo "not ok $count - $library: nothing writes the environment"
		echo "# it uses: $found"
	fi
done
