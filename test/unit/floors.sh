#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# An include may only point down: public headers, registry, core, transports. Prints TAP.
cd "${top_srcdir:-.}" || exit 99
n=0

# NAME PATTERN FILE...: no line of the files includes anything that matches
none() {
	name=$1 pattern=$2
	shift 2
	n=$((n + 1))
	found=$(grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]$pattern" "$@" /dev/null)
	if [ -z "$found" ]; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name"
		echo "$found" | sed 's/^/# /'
	fi
}

echo 1..5
none 'public headers include public and system headers only' '(\.\./|udapl|infiniband/|rdma/|config\.h)' include/dat/*.h
none 'the registry knows no provider' '(\.\./|udapl|object|transport|infiniband/|rdma/)' dat/*.[ch]
none 'the core knows no device library' '(infiniband/|rdma/)' udapl/*.[ch]
none 'the core reaches into no other room' '(\.\./|verbs/|ofi/|dat\.h|libdat)' udapl/*.[ch]
none 'tools are consumers' '(\.\./|udapl\.h|transport|libdat|infiniband/|rdma/)' dtest/*.[ch]
