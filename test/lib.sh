# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Shared by the scripts below test/: words to the user, packages, progress, the build.

top=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
# shellcheck disable=SC2034 # the scripts that read this file use them
{
	build=$(realpath -m -- "${BUILD:-$top/build}")
	vm_cache=$(realpath -m -- "${VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/dat-vm}")

	# the compiler, and what configure looks for
	build_packages=(autoconf automake gcc libc6-dev libtool make pkg-config
		libibverbs-dev librdmacm-dev)
	# what a guest is made of, and the programs that look at RDMA devices
	vm_packages=(busybox-static cpio ibverbs-providers ibverbs-utils iproute2 kmod
		qemu-system-x86 rdma-core rdmacm-utils xz-utils)
	test_packages=(check clang clang-format g++ libclang-rt-14-dev mandoc shellcheck valgrind)
}

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "${*:2}"; exit "$1"; }

# nap SECONDS: sleep without a process that could be left behind
nap() { read -rt "$1" <> <(:) || :; }

# progress WHAT COMMAND...: run COMMAND with its output in a log, say every few
# seconds that it goes on, and show the end of the log should it fail
progress() {
	local what=$1 began=$SECONDS file log ticker rc=0

	shift
	say "$what"
	# a log without a name: nothing is left behind, however this ends
	file=$(mktemp)
	exec {log}<>"$file"
	rm "$file"
	file=/proc/$$/fd/$log
	while nap 5 && kill -0 $$ 2>/dev/null; do
		say "  $what: $((SECONDS - began)) s: $(tail -n 1 "$file" | cut -c -100)"
	done &
	ticker=$!
	"$@" >&"$log" 2>&1 </dev/null || rc=$?
	{ kill "$ticker" && wait "$ticker"; } 2>/dev/null || :
	if ((rc)); then
		tail -n 40 "$file" | sed 's/^/  | /' >&2
		say "$what: failed with status $rc after $((SECONDS - began)) s"
	fi
	exec {log}>&-
	return "$rc"
}

# apt_get ARG...: apt-get as root, which waits for whoever holds the package lock
apt_get() {
	local cmd=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 "$@")

	((EUID == 0)) || cmd=(sudo "${cmd[@]}")
	"${cmd[@]}"
}

# apt-get waits for the lock of the installed packages, but not for that of the lists
apt_update() {
	local out

	until out=$(apt_get update 2>&1); do
		[[ $out == *'Could not get lock'* ]] || {
			printf '%s\n' "$out" 'going on with the package lists that are here'
			return
		}
		nap 2
	done
}

apt_install() {
	apt_update
	apt_get install -y --no-install-recommends "$@"
}

# need PACKAGE...: install those that are missing
need() {
	local missing

	mapfile -t missing < <(comm -23 <(printf '%s\n' "$@" | sort -u) \
		<(dpkg-query -Wf '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
			sed -n 's/^installed //p' | sort -u))
	((${#missing[@]})) || return 0
	if ((EUID)) && ! command -v sudo >/dev/null; then
		say "as root, please: apt-get install --no-install-recommends ${missing[*]}"
		return 1
	fi
	say "missing packages: ${missing[*]}"
	progress "installing" apt_install "${missing[@]}"
}

# built DIR OPTION...: everything made in DIR, configured with just these options
built() (
	[[ -x $top/configure ]] || (cd "$top" && ./autogen.sh) || return
	mkdir -p "$1" && cd "$1" || return
	[[ -e Makefile && -e .options && $(<.options) == "${*:2}" ]] ||
		{ "$top/configure" "${@:2}" && printf '%s\n' "${*:2}" >.options; } || return
	make -j"$(nproc)"
)
