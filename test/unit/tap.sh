# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
# TAP, for the scripts here, which source it. They print the plan themselves.

number=0
failures=0

# report STATUS NAME DETAILS: the case passes if STATUS is 0; else the details follow as comments
report() {
	number=$((number + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $number - $2"
	else
		failures=$((failures + 1))
		echo "not ok $number - $2"
		printf '%s\n' "$3" | sed 's/^/# /'
	fi
}

# none NAME OFFENDERS: a list of none is good
none() {
	[ -z "$2" ]
	report $? "$1" "$2"
}

# got_wanted STATUS NAME GOT WANTED: report, with both
got_wanted() {
	report "$1" "$2" "got: $3
wanted: $4"
}

# same NAME GOT WANTED
same() {
	[ "$2" = "$3" ]
	got_wanted $? "$@"
}

# skip NAME WHY
skip() {
	number=$((number + 1))
	echo "ok $number - $1 # SKIP $2"
}
