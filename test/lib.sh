# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Functions for the scripts below test/: messages, progress, packages, the build.

top=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
# shellcheck disable=SC2034 # the scripts that source this file use them
{
	build=$(realpath -m -- "${BUILD:-$top/build}")
	vm_cache=$(realpath -m -- "${VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/dat-vm}")

	# the compiler, and what configure looks for
	build_packages=(autoconf automake gcc libc6-dev libtool make pkg-config
		libfabric-dev libibverbs-dev librdmacm-dev)
	# for the guest, and to find RDMA devices
	vm_packages=(busybox-static cpio ibverbs-providers ibverbs-utils iproute2 kmod
		qemu-system-x86 rdma-core rdmacm-utils xz-utils)
	# for packages, see test/packages
	package_packages=(debhelper dpkg-dev lintian lowdown mandoc mmdebstrap rpm rpmlint)
	bench_packages=(perftest) # of make bench-peers
	make_options=() # of make in built
	test_packages=(check clang clang-format dapl2-utils g++ libclang-rt-14-dev libxml2-utils
		lowdown mandoc shellcheck valgrind)
}

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "${*:2}"; exit "$1"; }

# nap SECONDS: sleeps without a process of its own, which could outlive the script
nap() { read -rt "$1" <> <(:) || :; }

# attend COMMAND...: runs it in the background and waits, so that a trap of a signal does not wait
# until COMMAND ends
attend() {
	(trap - INT QUIT; "$@" || exit) &
	wait $!
}

# family PID: stops the process, and all that it has begun, so that they begin no more. Appends them
# to the array "stopped".
family() {
	local children=() child

	kill -STOP "$1" 2>/dev/null || return 0
	stopped+=("$1")
	read -ra children < <(cat "/proc/$1/task/"*/children 2>/dev/null) || :
	for child in "${children[@]}"; do family "$child"; done
}

# is_alive PID: and not only a record that nobody has read
is_alive() {
	local line

	{ read -r line <"/proc/$1/stat"; } 2>/dev/null && [[ $line != *') Z '* ]]
}

# own_tmp: makes the folder $tmp for all temporary files, those of programs that this script runs,
# too. They have its name in their environment, by which end_jobs finds those without a parent.
own_tmp() {
	tmp=$(mktemp -d)
	chmod 1777 "$tmp" # other users may run some of them, and have theirs there
	export TMPDIR=$tmp
}

# end_jobs: ends all that this script has begun, and waits for that. It is for traps of EXIT. What
# does not end within 10 seconds is killed.
end_jobs() {
	local stopped=() pid began=$SECONDS

	trap '' INT TERM HUP # a second signal must not interrupt this
	for pid in $(jobs -p); do family "$pid"; done
	while IFS=/ read -r _ _ pid _; do family "$pid"; done \
		< <(grep -lsxz "TMPDIR=$tmp" /proc/[0-9]*/environ)
	((${#stopped[@]})) || return 0
	kill -TERM "${stopped[@]}" 2>/dev/null || :
	kill -CONT "${stopped[@]}" 2>/dev/null || :
	for pid in "${stopped[@]}"; do
		while is_alive "$pid" && ((SECONDS - began < 10)); do nap 0.02; done
		! is_alive "$pid" || kill -KILL "$pid" 2>/dev/null || :
	done
}

# is_script: and no process of it that a signal has met before it was of its own
is_script() { [[ $BASHPID == "$$" ]]; }

# progress WHAT COMMAND...: runs COMMAND with its output in a log. Prints its last line every 5
# seconds, and its end if COMMAND fails: then $reason has the lines that tell why.
progress() {
	local what=$1 began=$SECONDS file log ticker rc=0

	shift
	say "$what"
	# the log is unlinked at once, so that it is removed however the script ends
	file=$(mktemp)
	exec {log}<>"$file"
	rm "$file"
	file=/proc/$BASHPID/fd/$log
	{
		trap - INT QUIT
		while nap 5 && kill -0 $$ 2>/dev/null; do
			say "  $what: $((SECONDS - began)) s: $(tail -n 1 "$file" | cut -c -100)"
		done
	} &
	ticker=$!
	"$@" >&"$log" 2>&1 </dev/null || rc=$?
	# again, because a signal is lost if it comes before the new process has reset its traps
	while kill "$ticker" 2>/dev/null; do nap 0.02; done
	if ((rc)); then
		# shellcheck disable=SC2034 # for the caller
		reason=$(grep -aE '^(FAIL|XPASS|ERROR): |: (fatal )?error: ' "$file" |
			head -n 8 | grep . || tail -n 1 "$file")
		tail -n 40 "$file" | sed 's/^/  | /' >&2
		say "$what: failed with status $rc after $((SECONDS - began)) s"
	fi
	exec {log}>&-
	return "$rc"
}

as_root() {
	local cmd=("$@")

	((EUID == 0)) || cmd=(sudo "${cmd[@]}")
	"${cmd[@]}"
}

# apt_get ARG...: apt-get as root; waits if another process holds the lock of the packages
apt_get() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 "$@"
}

# apt-get does not wait for the lock of the package lists, so try again
apt_update() {
	local out

	until out=$(apt_get update 2>&1); do
		[[ $out == *'Could not get lock'* ]] || {
			printf '%s\n' "$out" 'continuing with the present package lists'
			return
		}
		nap 2
	done
}

apt_install() {
	apt_update
	apt_get install -y --no-install-recommends "$@"
}

# need PACKAGE...: installs those that are missing
need() {
	local missing

	mapfile -t missing < <(comm -23 <(printf '%s\n' "$@" | sort -u) \
		<(dpkg-query -Wf '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
			sed -n 's/^installed //p' | sort -u))
	((${#missing[@]})) || return 0
	if ((EUID)) && ! command -v sudo >/dev/null; then
		say "run as root: apt-get install --no-install-recommends ${missing[*]}"
		return 1
	fi
	say "missing packages: ${missing[*]}"
	progress "installing" apt_install "${missing[@]}"
}

# built DIR OPTION...: builds everything in DIR, configured with exactly these options
built() (
	[[ -x $top/configure ]] || (cd "$top" && ./autogen.sh) || return
	mkdir -p "$1" && cd "$1" || return
	[[ -e Makefile && -e .options && $(<.options) == "${*:2}" ]] ||
		{ "$top/configure" "${@:2}" && printf '%s\n' "${*:2}" >.options; } || return
	make -j"$(nproc)" "${make_options[@]}"
)

# copy_sources BUILD DIR: the files of a distribution, in DIR/src, configured in no way. Those that
# did not change since the last copy keep their time. DIR is below BUILD. After a change of the
# build system everything in DIR is new.
copy_sources() {
	local file fresh=$2/fresh

	rm -rf "$fresh"
	mkdir -p "$2/src"
	make -s -C "$1" distdir distdir="$(realpath --relative-to="$1" -- "$fresh")" || return
	if cmp -s "$fresh/Makefile.in" "$2/src/Makefile.in" &&
		cmp -s "$fresh/configure" "$2/src/configure"; then
		while IFS= read -r file; do
			cmp -s "$fresh/$file" "$2/src/$file" || cp "$fresh/$file" "$2/src/$file"
		done < <(cd "$fresh" && find . -type f)
		rm -rf "$fresh"
	else
		mv "$fresh" "$2.fresh" && rm -rf "$2" && mkdir "$2" && mv "$2.fresh" "$2/src"
	fi
}
