# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For scripts that run a program on the device: a dat.conf with the names end0 and end1 for its two
# interfaces, and TAP. Scripts source it first, from bash. Without a device it exits with a skip.
# DAT_TEST_EDITION=2: programs are those of DAT 2.0.

set -uo pipefail

# make check sets top_builddir; by hand, run a script in the build's folder
build=${top_builddir:-$PWD}
[[ -n ${DAT_TEST_DEV:-} ]] || {
	echo '1..0 # SKIP no RDMA device here: make check-vm runs this where there is one'
	exit 0
}
edition='' # what the programs of the edition have in their names
[[ ${DAT_TEST_EDITION:-1} == 1 ]] || edition=2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export DAT_OVERRIDE=$tmp/dat.conf
for end in 0 1; do
	interface=DAT_TEST_IF$end
	case $DAT_TEST_DEV in
	tcp) provider=libdaplofi params="tcp ${!interface}" ;;
	ofi-*) provider=libdaplofi params="verbs ${!interface}" ;;
	*) provider=libdaplcma params="${!interface} 0" ;;
	esac
	# for both editions of DAT
	echo "end$end u1.2 nonthreadsafe default $build/udapl/.libs/$provider.so dapl.1.2" \
		"\"$params\" \"\""
	echo "end$end u2.0 nonthreadsafe default $build/udapl/.libs/${provider}2.so dapl.2.0" \
		"\"$params\" \"\""
done >"$DAT_OVERRIDE"

# in_guest: the device is in a guest of vm/on-device, where each process and each byte takes long:
# what is not the point of a case is smaller there
in_guest() { [[ -n ${DAT_TEST_GUEST:-} ]]; }

# until_line FILE WORDS PID [N]: returns when FILE has N lines (1) with WORDS, or the process has
# ended. Starts no process, because that takes long in a guest.
exec {idle}<> <(:)
until_line() {
	local line n

	while
		n=0
		while IFS= read -r line; do
			[[ $line != *"$2"* ]] || ((++n))
		done <"$1"
		((n < ${4:-1})) && kill -0 "$3" 2>/dev/null
	do
		read -rt 0.02 -u "$idle" || :
	done
}

# program NAME: sets "program" to build/NAME/NAME, or build/NAME/NAME2 for DAT 2.0, without the
# script that libtool puts in its place, which takes as long as most runs
# shellcheck disable=SC2034 # the scripts use it
program() {
	program=$build/$1/$1$edition
	if [[ -x $build/$1/.libs/$1$edition ]]; then
		program=$build/$1/.libs/$1$edition
		export LD_LIBRARY_PATH=$build/dat/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	fi
}

count=0
report() { # STATUS CASE: unless STATUS is 0, with the last lines of $tmp/*.log
	((++count))
	if (($1)); then
		echo "not ok $count - $2"
		tail -n 20 "$tmp"/*.log | sed 's/^/# /'
	else
		echo "ok $count - $2"
	fi
}
