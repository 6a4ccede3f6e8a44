#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What an installation brings: the names of dat.conf, a dat.conf that is never overwritten, packages
# of one version, flags that compile the examples, and a provider that finds libdat however the
# program has loaded it. Prints TAP.

# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
top=${top_srcdir:-.}
build=${top_builddir:-.}
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT

echo 1..25

# ---- the names

# All lines, those that are comments too, as an administrator uncomments them.
sed 's/^#\([A-Za-z]\)/\1/' "$top/dat.conf" >"$tmp/all.conf"
DAT_OVERRIDE="$tmp/all.conf" DAT_DBG_TYPE=1 "$build/dtest/dtest" --list >"$tmp/list" 2>"$tmp/errors"
same 'every line of dat.conf can be used' "$(grep 'all.conf:[0-9]' "$tmp/errors")" ''
for name in OpenIB-cma OpenIB-cma-1 OpenIB-cma-2 OpenIB-cma-3 OpenIB-bond OpenIB-mthca0-1 \
	OpenIB-mlx4_0-1 OpenIB-mlx5_0-1 OpenIB-ipath0-1 OpenIB-iwarp OpenIB-cma-roe-eth2; do
	grep -q " $name u1.2 nonthreadsafe: " "$tmp/list" || echo "$name"
done >"$tmp/missing"
same 'dat.conf has the names that recipes expect' "$(cat "$tmp/missing")" ''
DAT_OVERRIDE="$tmp/all.conf" "$build/dtest/dtest2" --list >"$tmp/list" 2>"$tmp/errors"
for name in ofa-v2-ib0 ofa-v2-ib1 ofa-v2-eth2 ofa-v2-iwarp ofa-v2-cma-roe-eth2 \
	ofa-v2-mlx4_0-1 ofa-v2-mlx4_0-1s ofa-v2-mlx4_0-1u ofa-v2-scm-roe-mlx4_0-1 \
	ofa-v2-mlx5_0-1 ofa-v2-mlx5_0-1s ofa-v2-mlx5_0-1u; do
	grep -q " $name u2.0 nonthreadsafe: " "$tmp/list" || echo "$name"
done >"$tmp/missing"
same 'dat.conf has the names of DAT 2.0 that recipes expect' "$(cat "$tmp/missing")" ''
same 'the first name is the one that programs take without being told' \
	"$(grep -v '^ *\(#\|$\)' "$top/dat.conf" | head -n 1 | cut -d ' ' -f 1)" OpenIB-cma

# ---- installation

confdir=$(sed -n 's/^sysconfdir = //p' "$build/Makefile")
prefix=$(sed -n 's/^prefix = //p' "$build/Makefile")
conf=$tmp/root$(printf '%s\n' "$confdir" | sed "s,\${prefix},$prefix,")/dat.conf
install() { make -s -C "$build" "$1" DESTDIR="$tmp/root" >"$tmp/log" 2>&1; }
install install-data-local
# without the lines of a provider that is not built
lines=$top/dat.conf
if ! test -e "$build/udapl/libdaplofi.la"; then
	lines=$tmp/lines
	grep -v libdaplofi "$top/dat.conf" >"$lines"
fi
same 'dat.conf is installed where there is none' "$(cmp "$conf" "$lines" 2>&1)" ''
echo '# of the administrator' >"$conf"
install install-data-local
same 'an installation keeps the dat.conf that is there' "$(cat "$conf")" \
	'# of the administrator'
install uninstall-local
same 'a dat.conf that was changed stays' "$(cat "$conf")" '# of the administrator'

# ---- manual pages

# pages FOLDER [NAME=VALUE]: installs them there
pages() {
	folder=$1
	shift
	make -s -C "$build" install-data DESTDIR="$tmp/$folder" "$@" >"$tmp/log" 2>&1 ||
		tail -n 3 "$tmp/log"
	find "$tmp/$folder" -path '*/man[1-7]/*' | sort >"$tmp/pages"
}
same 'pages are installed as they are' \
	"$(pages plain; while read -r page; do
		cmp "$page" "$(find "$top/doc" -name "${page##*/}")"
	done <"$tmp/pages")" ''
# shellcheck disable=SC2016 # make expands it
same 'pages of tools with other names are installed under these' \
	"$(pages renamed program_transform_name='s/test$$/test1/'
	sed -n 's,.*/\([a-z]*test1*\.1\)$,\1,p' "$tmp/pages")" 'dapltest1.1
dtest1.1'
same 'all pages say these names' \
	"$(xargs grep -nE '(Nm|Xr) (dtest|dapltest)\>|\<(dtest|dapltest)\\\\? -' <"$tmp/pages")" ''
if command -v mandoc >/dev/null; then
	same 'and are good mdoc' "$(grep /man1/ "$tmp/pages" | xargs mandoc -Tlint -W warning)" ''
else
	skip 'and are good mdoc' 'no mandoc'
fi

# ---- packages

version=$(sed -n 's/^Version: //p' "$build/dat.pc")
same 'the packages have the version of the libraries' \
	"$(sed -n '1s/^dat (\(.*\)) .*/\1/p' "$top/debian/changelog") \
$(sed -n 's/^Version: *//p' "$top/rpm/dat.spec") \
$(sed -n 's/^\*.* \([0-9.]*\)-[0-9]*$/\1/p' "$top/rpm/dat.spec" | head -n 1)" \
	"$version $version $version"

# ---- programs

if command -v pkg-config >/dev/null; then
	flags=$(pkg-config --define-variable=includedir="$top/include" --cflags "$build/dat.pc")
	# shellcheck disable=SC2086 # flags are words
	same 'the flags of pkg-config are enough to compile each example' \
		"$(for code in "$top"/examples/*.c; do
			${CC:-cc} -Wall -Werror -c -o "$tmp/example.o" "$code" $flags 2>&1
		done)" ''
else
	skip 'the flags of pkg-config are enough to compile each example' 'no pkg-config'
fi

# ---- the providers

# provider LIBRARY REGISTRY SYMBOLS
provider() {
	library=$1 name=${1##*/}
	why=
	[ -e "$library" ] || why='not built'
	command -v readelf >/dev/null || why='no readelf (Debian: binutils)'
	if [ -n "$why" ]; then
		skip "$name needs $2" "$why"
		skip "$name exports what registries look up" "$why"
		return
	fi
	same "$name needs $2" \
		"$(readelf -d "$library" | grep NEEDED | grep -cF "[$2]")" 1
	same "$name exports what registries look up" \
		"$(readelf --dyn-syms --wide "$library" | awk '
			$7 != "UND" && $5 == "GLOBAL" && $7 != "ABS" { print $8 }' |
			LC_ALL=C sort | tr '\n' ' ')" "$3 "
}
both='dat_provider_fini@@DAPL_CMA_1.2 dat_provider_init@@DAPL_CMA_1.2'
both2='dapl_extensions@@DAPL_CMA_2.0'
both2="$both2 dat_provider_fini@@DAPL_CMA_2.0 dat_provider_init@@DAPL_CMA_2.0"
provider "$build/udapl/.libs/libdaplcma.so.1" libdat.so.1 "$both"
provider "$build/udapl/.libs/libdaplofi.so.1" libdat.so.1 "$both"
provider "$build/test/fake/.libs/libfakedat.so" libdat.so.1 "$both"
provider "$build/udapl/.libs/libdaplcma2.so.2" libdat2.so.2 "$both2"
provider "$build/udapl/.libs/libdaplofi2.so.2" libdat2.so.2 "$both2"
provider "$build/test/fake/.libs/libfakedat2.so" libdat2.so.2 "$both2"
