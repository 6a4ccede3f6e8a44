#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Which layer may include the headers of which: a call goes from the consumer to the registry, the
# core and the transport, and none of them knows the layers above it. Prints TAP.

cd "${top_srcdir:-.}" || exit 99
n=0
failures=0

# none NAME PATTERN FILE...: no line of the files includes anything that matches
none() {
	name=$1 pattern=$2
	shift 2
	n=$((n + 1))
	if [ -f "$1" ]; then
		found=$(grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]$pattern" \
			"$@" /dev/null)
	else
		found='there are no such files'
	fi
	if [ -z "$found" ]; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name"
		echo "$found" | sed 's/^/# /'
		failures=$((failures + 1))
	fi
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
none 'public headers include public and system headers only' \
	"(\.\./|udapl|$verbs|config\.h)" include/dat/*.h include/dat2/*.h
none 'the headers of DAT 1.2 include none of 2.0' 'dat2/' include/dat/*.h
none 'the headers of DAT 2.0 include none of 1.2' '(dat/|u?dat[a-z_]*\.h)' include/dat2/*.h
none 'the registry knows no provider' "(\.\./|udapl|object|transport|$verbs)" dat/*.[ch]
# shellcheck disable=SC2046,SC2086 # paths without blanks
{
	none 'the core knows no device library' "($verbs)" udapl/*.h $(sources $rooms)
	none 'the core includes no header of a transport or of the registry' \
		'(\.\./|verbs/|ofi/|dat\.h|libdat)' udapl/*.h $(sources $rooms)
}
none 'tools are consumers' "(\.\./|udapl\.h|transport|libdat|$verbs)" \
	tools/*.[ch] dtest/*.[ch] dapltest/*.[ch]
# shellcheck disable=SC2046 # paths without blanks
{
	none 'examples are consumers' "($private|$verbs)" $(sources examples)
	none 'tests of the public interface are consumers' "$private" \
		$(sources test/consumer test/func test/conform test/bench)
	none 'the fake transport, the unit tests and the runner know no device library' \
		"([^\">]*/verbs/|$verbs)" $(sources test/fake test/unit test/harness)
}
[ $failures -eq 0 ]
