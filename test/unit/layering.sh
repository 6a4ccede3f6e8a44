#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Which layer may include the headers of which: a call goes from the consumer to the registry, the
# core and the transport, and none of them knows the layers above it. Prints TAP.

# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
cd "${top_srcdir:-.}" || exit 99

# no_include NAME PATTERN FILE...: no line of the files includes anything that matches
no_include() {
	name=$1 pattern=$2
	shift 2
	if [ -f "$1" ]; then
		found=$(grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]$pattern" \
			"$@" /dev/null)
	else
		found='there are no such files'
	fi
	none "$name" "$found"
}

# sources FOLDER...: the C files below those folders that exist
sources() {
	for folder; do
		[ ! -d "$folder" ] || find "$folder" -name '*.[ch]'
	done
}

# of the core; rooms.sh looks at these one by one
rooms=$(find udapl/* -prune -type d ! -path udapl/verbs ! -path udapl/ofi)
verbs='infiniband/|rdma/'
private='(conf|libdat|log)\.h|(\.\./)+(dat|udapl|fake|test/fake)/'

echo 1..10
no_include 'public headers include public and system headers only' \
	"(\.\./|udapl|$verbs|config\.h)" include/dat/*.h include/dat2/*.h
no_include 'the headers of DAT 1.2 include none of 2.0' 'dat2/' include/dat/*.h
no_include 'the headers of DAT 2.0 include none of 1.2' '(dat/|u?dat[a-z_]*\.h)' include/dat2/*.h
no_include 'the registry knows no provider' "(\.\./|udapl|object|transport|$verbs)" dat/*.[ch]
# shellcheck disable=SC2046,SC2086 # paths without blanks
{
	no_include 'the core knows no device library' "($verbs)" udapl/*.h $(sources $rooms)
	no_include 'the core includes no header of a transport or of the registry' \
		'(\.\./|verbs/|ofi/|dat\.h|libdat)' udapl/*.h $(sources $rooms)
}
no_include 'tools are consumers' "(\.\./|udapl\.h|transport|libdat|$verbs)" \
	tools/*.[ch] dtest/*.[ch] dapltest/*.[ch]
# shellcheck disable=SC2046 # paths without blanks
{
	no_include 'examples are consumers' "($private|$verbs)" $(sources examples)
	no_include 'tests of the public interface are consumers' "$private" \
		$(sources test/consumer test/func test/conform test/bench)
	no_include 'the fake transport, the unit tests and the runner know no device library' \
		"([^\">]*/verbs/|$verbs)" $(sources test/fake test/unit test/harness)
}
[ $failures -eq 0 ]
