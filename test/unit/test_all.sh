#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# test/all, with commands that pretend to build and to check: what failed is told at the end.
# Prints TAP.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may run scripts with another shell
# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
source=${top_srcdir:-.}/test
tmp=$(mktemp -d) || exit 99
chmod 755 "$tmp" # for the steps of another user
trap 'rm -rf "$tmp"' EXIT

mkdir -p "$tmp/tree/test" "$tmp/bin"
touch "$tmp/tree/configure.ac"
cp "$source/all" "$source/lib.sh" "$tmp/tree/test"
chmod +x "$tmp/tree/test/all"

# pretend NAME: what it does is on standard input
pretend() {
	{ echo '#!/bin/bash'; cat; } >"$1" && chmod +x "$1"
}
pretend "$tmp/tree/configure" <<<'touch Makefile'
pretend "$tmp/bin/shellcheck" <<<':'
# shellcheck disable=SC2016 # the command expands it
pretend "$tmp/bin/dpkg-query" <<<'printf "installed %s\n" "${@:3}"'
# It runs what $STEPS has for its arguments, or else a check of one case, which passes.
pretend "$tmp/bin/make" <<'EOF'
[[ $1 != -C ]] || { mkdir -p "$2/test" && cd "$2/test" || exit; }
results() { # PROGRAM RESULT...: its log is on standard input
	printf ':test-result: %s\n' "${@:2}" >"$1.trs"
	echo ":global-test-result: ${*: -1}" >>"$1.trs"
	cat >"$1.log"
}
eval "$STEPS"
[[ ! " $* " =~ \ check(-vm)?\  ]] || results passes PASS <<<'ok 1'
EOF

# all_prints STATUS LINE...: it ends so, and in any order prints these lines after the last message
all_prints() {
	local status

	STEPS=$steps PATH=$tmp/bin:$PATH BUILD=$tmp/build "$tmp/tree/test/all" \
		>"$tmp/out" 2>&1 </dev/null
	status=$?
	awk '/^all: / { text = ""; next } { text = text $0 "\n" } END { printf "%s", text }' \
		"$tmp/out" | grep . >"$tmp/end"
	[[ $status == "$1" && $(tail -n 1 "$tmp/end") == "${*: -1}" &&
		$(sort "$tmp/end") == "$(printf '%s\n' "${@:2}" | sort)" ]]
}

all_report() { # STATUS NAME
	report "$1" "$2" "$(cat "$tmp/out")"
}

echo 1..4
steps=
all_prints 0 '13 passed, 0 failed'
all_report $? 'without a failure the closing line stands alone'

# shellcheck disable=SC2016 # the command expands it
steps='case $* in
*/asan*source_scripts=*)
	results test_x PASS FAIL FAIL ERROR <<-EOF
		ok 1 - good
		PASS: test/x 1 - good
		not ok 2 - bad
		FAIL: test/x 2 - bad
		# x.c:5: Assertion
		# and more of it
		not ok 3 - worse
		FAIL: test/x 3 - worse
		ERROR: test/x - exited with status 1
	EOF
	exit 2;;
*--siw*)
	results test_y ERROR <<-EOF
		ERROR: test/y - too few tests run
	EOF
	exit 2;;
esac'
all_prints 1 \
	'FAILED: checking: asan' \
	'  FAIL: test/x 2 - bad' \
	'  # x.c:5: Assertion' \
	'  FAIL: test/x 3 - worse' \
	'  ERROR: test/x - exited with status 1' \
	'FAILED: checking on soft-iWARP' \
	'  ERROR: test/y - too few tests run' \
	'12 passed, 4 failed'
all_report $? 'cases that failed are listed with their messages, those of the background, too'

# shellcheck disable=SC2016 # the command expands it
steps='case $* in
*distcheck*)
	printf "%s\n" "PASS: a 1" "not ok 2 - b" "FAIL: a 2 - b" "# why" "make: Error 2"
	exit 2;;
*check-packages*)
	echo "no network"
	exit 1;;
*/tsan*test-programs*)
	printf "%s\n" "x.c:1: warning: x" "y.c:2:3: error: y" "make: Error 1"
	exit 2;;
*/asan*source_scripts=*)
	exit 2;;
esac'
all_prints 1 \
	'FAILED: building, checking and trying packages' \
	'  no network' \
	'FAILED: checking: asan: cases did not run' \
	'FAILED: building: tsan' \
	'  y.c:2:3: error: y' \
	'FAILED: making a distribution' \
	'  FAIL: a 2 - b' \
	'7 passed, 4 failed'
all_report $? 'steps that failed are listed with the lines that tell why'

# shellcheck disable=SC2016 # the command expands it
steps='[[ $* != *check-install* ]] || { read -r _ _ _ all _ </proc/$PPID/stat && kill $all; }'
! all_prints 143 && [[ $(tail -n 1 "$tmp/out") != *passed* ]]
all_report $? 'an interrupted run tells no result'
