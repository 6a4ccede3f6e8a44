# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# The results of a benchmark, for the report (test/bench/report): a file BUILD/bench/PART.tsv of
# lines whose words are separated by tabs:
#
#	part	PART			first
#	fact	NAME	VALUE		when, where and of what
#	table	NAME	COLUMN...	begins a table
#	row	CELL...			of the table before it, a cell for each column
#	end				last
#
# The programs of this folder append tables to the file that BENCH_RESULTS names (bench.h).
#
#	results.sh machine		prints what this machine is, for the fact of that name

# machine: prints processor, number of processors and kernel
machine() {
	local processor

	processor=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
	printf '%s, %s processors, Linux %s\n' "${processor:-$(uname -m)}" "$(nproc)" "$(uname -r)"
}

# version_of LIBRARY: prints it, as pkg-config knows it
version_of() { pkg-config --modversion "$1" 2>/dev/null || echo unknown; }

# results_begin BUILD PART: PART of an earlier run is gone. DAT_TEST_DEV and DAT_TEST_GUEST tell on
# which device the benchmark runs, BENCH_HOST what the machine is that has the guest.
results_begin() {
	local build=$1 part=$2 place software cc version

	results=$build/bench/$part
	mkdir -p "$build/bench"
	rm -f "$results.tsv"
	cc=$(sed -n 's/^CC = //p' "$build/Makefile")
	# libibverbs 1.14.44.0 is of rdma-core 44.0
	version=$(version_of libibverbs)
	software="rdma-core ${version#*.*.}"
	case ${DAT_TEST_DEV:-} in
	tcp)
		place="libfabric's tcp, loopback interface"
		software="libfabric $(version_of libfabric)"
		;;
	'') place='a transport in memory' software='' ;;
	rxe) place=soft-RoCE ;;
	siw) place=soft-iWARP ;;
	*) place='an RDMA device' ;;
	esac
	[[ -z ${DAT_TEST_GUEST:-} ]] || place+=", in a guest of $(nproc)"
	software+="${software:+, }$(getconf GNU_LIBC_VERSION)"
	# shellcheck disable=SC2086 # with its options
	software+=", ${cc%% *} $($cc -dumpfullversion 2>/dev/null || $cc -dumpversion)"
	software+=" $(sed -n 's/^CFLAGS = //p' "$build/Makefile")"
	{
		printf 'part\t%s\n' "$part"
		printf 'fact\tdate\t%s\n' "$(date -u '+%Y-%m-%d %H:%M')"
		printf 'fact\tmachine\t%s\n' "${BENCH_HOST:-$(machine)}"
		printf 'fact\tplace\t%s\n' "$place"
		printf 'fact\tsoftware\t%s\n' "$software"
		printf 'fact\tload\t%s\n' "$(cut -d " " -f 1 /proc/loadavg)"
	} >"$results.new"
	export BENCH_RESULTS=$results.new
}

# results_table NAME COLUMN..., results_row CELL...
results_table() { results_line table "$@"; }
results_row() { results_line row "$@"; }
results_line() {
	local IFS=$'\t'

	printf '%s\n' "$*" >>"$BENCH_RESULTS"
}

# results_end: what was begun is complete
results_end() {
	echo end >>"$BENCH_RESULTS"
	mv "$BENCH_RESULTS" "$results.tsv"
}

[[ ${1:-} != machine || ${BASH_SOURCE[0]} != "$0" ]] || machine
