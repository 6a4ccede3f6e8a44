#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What a signal leaves of test/all and test/demo, whatever they are at: no process, no file, and
# nothing that the next run stumbles over. Compilers, tests and guests are pretended. Prints TAP.

[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # make may run scripts with another shell
# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
cd "${top_srcdir:-.}" || exit 99
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT

# ---- a tree whose programs do nothing, or what $HANG names without an end

mkdir -p "$tmp/bin"
program() { cat >"$tmp/bin/$1" && chmod +x "$tmp/bin/$1"; }

# hang LABEL...: for one that is named, with processes and a file of its own
program hang <<'END'
#!/bin/bash
for label; do
	[[ " $HANG " == *" $label "* ]] || continue
	: >"$(mktemp)"
	timeout 1000 sleep 1000 & # without an end, but if a case fails
	: >"$AT/$label"
	wait
done
END
program make <<'END'
#!/bin/bash
cd_to=.
[[ $1 != -C ]] || cd_to=$2
cd "$cd_to" || exit
case " $* " in
*' check-vm '*) hang check-vm; "$TREE/test/vm/on-device" --rxe true || exit ;;
*' TESTS= '*) hang tests ;;
*' check-'* | *' distcheck '*) hang "${@:3}"; exit ;; # others count results meanwhile
*' check '*) hang check ;;
*' expanded '*) exit ;; # meanwhile, too
*)
	hang build
	mkdir -p test dtest examples
	cp "$(command -v dtest)" dtest
	cp "$(command -v dtest)" dtest/dtest2
	cp "$(type -P true)" examples/window
	;;
esac
: >test/a.log
echo ':test-result: PASS' >test/a.trs
echo ':global-test-result: PASS' >>test/a.trs
END
program dtest <<'END'
#!/bin/bash
echo waiting
[[ " $* " != *' -s '* ]] || hang server
[[ " $* " == *' -s '* ]] || hang client
echo '1 CLIENT: RCV RDMA read buffer'
echo PASSED
END
program configure <<'END'
#!/bin/sh
[ -e "$TREE/Makefile.in" ] || exit 1
hang configure
: >Makefile
END
program autoreconf <<'END'
#!/bin/sh
cp "$(command -v configure)" "$TREE"
hang autoreconf
: >"$TREE/Makefile.in"
END
program qemu-system-x86_64 <<'END'
#!/bin/bash
hang guest
io=$(tr , '\n' <<<"$*" | sed -n 's|^path=\(.*/io\)$|\1|p')
echo 0 >"$io/status"
END
# all is installed but what apt-get has not installed yet
program dpkg-query <<'END'
#!/bin/bash
for package in "${@:3}"; do
	[[ $package == gcc && " $HANG " == *' apt-get '* && ! -e $AT/installed ]] ||
		echo "installed $package"
done
END
program apt-get <<'END'
#!/bin/bash
[[ " $* " != *' update '* ]] || exit 0
: >"$AT/apt-get"
until [[ -e $AT/release ]]; do read -rt 0.02 <> <(:); done
: >"$AT/installed"
END
program sudo <<'END'
#!/bin/sh
exec "$@"
END
for name in automake libtoolize pkg-config shellcheck; do
	printf '#!/bin/sh\n' | program $name
done

# tree DIR: as a fresh clone
tree() {
	mkdir -p "$1"/{at,cache/1,tmp} "$1/tree/test/vm"
	ln -s 1 "$1/cache/current"
	cp autogen.sh "$1/tree"
	cp test/{all,demo,lib.sh} "$1/tree/test"
	cp test/vm/{guest-init,on-device,vm} "$1/tree/test/vm"
	cp "$tmp/bin/shellcheck" "$1/tree/test/vm/setup"
}

# run DIR WHAT SCRIPT [OPTION]: becomes that script of the tree, with what hangs
run() {
	exec env --default-signal HANG="$2" AT="$1/at" TREE="$1/tree" TMPDIR="$1/tmp" \
		VM_CACHE="$1/cache" BUILD="$1/build" PATH="$tmp/bin:$PATH" \
		"$1/tree/test/$3" "${@:4}" >"$1/out" 2>&1
}

# ---- the cases

# ended DIR STATUS WANTED: prints what is not as it should be
ended() {
	local left

	[[ $2 == "$3" ]] || echo "status $2, not $3: $(tail -n 3 "$1/out" | paste -sd '|')"
	left=$(grep -lzsx "AT=$1/at" /proc/[0-9]*/environ)
	for left in $left; do
		[[ ! -e ${left%environ}exe ]] ||
			echo "left running: $(tr '\0' ' ' <"${left%environ}cmdline")"
	done
	left=$(find "$1/tmp" -mindepth 1 | head -n 3)
	[[ -z $left ]] || echo "left: $left"
}

# interrupted DIR SIGNAL WHAT SCRIPT [OPTION]: prints what is not as it should be
interrupted() {
	local pid label wanted=143 group=''

	tree "$1"
	[[ $2 == TERM ]] || wanted=130
	[[ $2 != ^C ]] || group=-
	set -m # a process group of its own, as in a terminal
	run "$1" "${@:3}" &
	pid=$!
	set +m
	for label in $3; do
		until [[ -e $1/at/$label ]]; do
			[[ -e /proc/$pid ]] || { echo "ended: $(tail -n 3 "$1/out")"; return; }
			read -rt 0.02 <> <(:)
		done
	done
	kill -s "${2/^C/INT}" -- "$group$pid"
	: >"$1/at/release"
	wait $pid
	ended "$1" $? $wanted
	[[ $3 != apt-get || -e $1/at/installed ]] || echo "the installation was interrupted"
	[[ $2 == TERM ]] || return 0
	(run "$1" '' "${@:4}")
	ended "$1" $? 0
}

# Rows: signals; what is under way; the script that gets them. ^C: all of its group does, as from a
# terminal. After TERM it is run again.
rows='
INT TERM|apt-get|all
TERM|autoreconf|all
TERM|configure|all
^C INT TERM|build|all
INT|tests|all
INT|check|all
INT|check-install|all
^C INT TERM|check-packages guest|all
INT|distcheck|all
TERM|build|demo
^C INT TERM|server client|demo
^C INT TERM|guest|demo --rdma
'
names=()
while IFS='|' read -r signals what script; do
	for signal in $signals; do
		names+=("test/$script: $signal during $what leaves nothing")
		if [[ $script == *--rdma && -w /dev/infiniband/rdma_cm ]]; then
			names[-1]+=" # SKIP this host has a device"
			continue
		fi
		# shellcheck disable=SC2086 # an option is a word
		interrupted "$tmp/${#names[@]}" "$signal" "$what" $script \
			>"$tmp/found.${#names[@]}" &
		((${#names[@]} % 4)) || wait
	done
done <<<"$rows"
wait
echo "1..${#names[@]}"
for name in "${names[@]}"; do
	none "$name" "$(cat "$tmp/found.$((number + 1))" 2>/dev/null)"
done
