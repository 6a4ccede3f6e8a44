#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# datinfo: each cause that it tells is provoked, by libraries made here and by hosts that namespaces
# pretend; its options, its columns, its JSON. Prints TAP.

# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
top=${top_builddir:-.}
src=${top_srcdir:-.}
cc=${CC:-cc}
datinfo=$top/datinfo/datinfo
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp" # another user reads it below
export DAT_OVERRIDE="$tmp/dat.conf"
unset DAT_DBG_TYPE DAPL_DBG_TYPE
# what is preloaded below comes before the sanitizer's library
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0"

# result NAME GOT WANTED: GOT matches the extended regular expression WANTED; lines are joined by |
result() {
	printf '%s\n' "$2" | tr '\n' '|' | sed 's/|$//' | grep -Eqx -- "$3"
	got_wanted $? "$@"
}

# edition DAT: what follows is about lines of this edition, and about its libraries
edition() {
	dat=$1 two=
	[ "$dat" = 1.2 ] || two=2
	fake=$top/test/fake/.libs/libfakedat$two.so
	cma=$top/udapl/.libs/libdaplcma$two.so
	ofi=$top/udapl/.libs/libdaplofi$two.so
}
edition 1.2

# line NAME LIBRARY PARAMS: a line of dat.conf
line() {
	echo "$1 u$dat nonthreadsafe default $2 dapl.$dat \"$3\" \"\""
}

# told: what the list says of the first name: state, cause|remedy, without the blanks between
told() {
	sed -n '3,$p' | sed '/^ *[0-9]/s/^ *[0-9]* [^ ]* *[0-9.]* *//; s/^  *//; s/   */ /g'
}

# cause TEXT WANTED LIBRARY PARAMS: the list has WANTED, which is reason|remedy, for such a line
cause() {
	line it "$3" "$4" >"$tmp/dat.conf"
	result "$dat: $1" "$("$datinfo" | told)" "unusable $2"
}

echo 1..192

# ---- options

# refused WHY OPTION...: status 2, and on standard error WHY and where to look, nothing else
refused() {
	why=$1
	shift
	"$datinfo" "$@" >"$tmp/out" 2>"$tmp/errors"
	result "datinfo $*: $why" \
		"$?$(cat "$tmp/out") $(cat "$tmp/errors")" "2 [^|]*$why\\|try datinfo --help"
}
refused "unrecognized option '--none'" --none
refused '--check wants a file' --check
refused "--check and --generate don't go together" --check --generate
refused '--generate takes no argument' --generate x
refused '--all, --json and --peer go with the list only' --json --check x
refused '--all, --json and --peer go with the list only' --all --generate
refused '--all, --json and --peer go with the list only' --peer x --check x
refused '--wait wants seconds, 1 to 3600' --wait 0
for host in '' : x:0 x:65536 x:y '[::1' '[::1]45248' '[]:1'; do
	refused '--peer wants HOST or HOST:PORT' --peer "$host"
done
result 'datinfo --help prints the usage' "$("$datinfo" --help | head -n 1)" 'usage: datinfo .*'
result 'datinfo --version prints name and version' "$("$datinfo" --version)" \
	"datinfo $(sed -n 's/^Version: //p' "$top/dat.pc")"

# ---- libraries

cat >"$tmp/provider.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define HAS(library) (dlopen(library, RTLD_NOLOAD | RTLD_LAZY) ? library : "")
void dat_provider_init(const void *info, const char *params);
void dat_provider_fini(const void *info);
int needed(void);
void dat_provider_init(const void *info, const char *params) { (void)info, (void)params; ACT; }
void dat_provider_fini(const void *info) { (void)info; }
END
# provider NAME ACT [OPTION...]: a library whose dat_provider_init does ACT
provider() {
	name=$1 act=$2
	shift 2
	$cc -shared -fPIC -DACT="$act" -o "$tmp/$name.so" "$tmp/provider.c" "$@" || exit 99
}
provider crash 'puts("last words"), fflush(stdout), signal(SIGSEGV, SIG_DFL), raise(SIGSEGV)'
provider leave '_exit(3)'
provider hang 'pause()'
provider idle '(void)0'
provider registries 'printf("%s%s\n", HAS("libdat.so.1"), HAS("libdat2.so.2")), fflush(stdout)'
echo 'int needed(void); int needed(void) { return 0; }' >"$tmp/needed.c"
$cc -shared -fPIC -o "$tmp/libneeded.so" "$tmp/needed.c" || exit 99
provider needy 'needed()' -L"$tmp" -lneeded
echo 'int poll(void); int poll(void) { return 0; }' >"$tmp/poll.c"
$cc -shared -fPIC -fno-builtin -o "$tmp/poll.so" "$tmp/poll.c" || exit 99
echo 'no library' >"$tmp/text.so"
mv "$tmp/libneeded.so" "$tmp/gone.so" # it is no provider, and its name is not found

library_causes() {
	# a provider finds the functions of a registry by their names alone
	cause 'the registry is that of the edition, and no other one' \
		"libdat$two.so.[12]\\|ask the documentation .*" "$tmp/registries.so" 'ib0 0'
	cause 'a library is missing' \
		"the library can't be loaded: libnone.so: cannot open [^|]*\\|install it, .*" \
		libnone.so 'ib0 0'
	cause 'a library that the library needs is missing' \
		"the library can't be loaded: libneeded.so: .*\\|install what the lib.*" \
		"$tmp/needy.so" 'ib0 0'
	cause 'a library is no library' \
		"the library can't be loaded: .*/text.so: .*\\|install a library that fits.*" \
		"$tmp/text.so" 'ib0 0'
	cause 'a library is no provider' \
		'.*/gone.so is no DAT provider: it has no dat_provider_init\|correct the .*' \
		"$tmp/gone.so" 'ib0 0'
	cause 'a provider crashes' \
		'the process that opened it crashed \(Segm.* fault\): last words\|install .*' \
		"$tmp/crash.so" 'ib0 0'
	cause 'a provider ends the process' \
		'the provider ended the process \(status 3\)\|install .*' "$tmp/leave.so" 'ib0 0'
	cause 'a provider does not register the name' \
		'dat_ia_open returned DAT_PROVIDER_NOT_FOUND DAT_.*\|ask the documentation .*' \
		"$tmp/idle.so" 'ib0 0'
}
for edition in 1.2 2.0; do
	edition $edition
	library_causes
done
cause 'the library of an old provider is missing' \
	"the library can't be loaded: .*\\|replace it by libdaplcma2.so.2, which takes .*" \
	"$tmp/libdaploscm.so.2" 'mlx5_0 1'
cause 'a library is of DAT 1.2' \
	'.* is a provider of DAT 1.2, and the line is for 2.0\|write libdaplofi2.so.2 in .*' \
	"$tmp/libdaplofi.so.1" tcp
# as if it were damaged: beside it is the registry of the other edition
: >"$tmp/libdat2.so.2"
if [ -e "$top/datinfo/.libs/datinfo" ]; then
	line it "$fake" fake0 >"$tmp/dat.conf"
	result "2.0: the registry can't be loaded" \
		"$(LD_LIBRARY_PATH=$tmp:$top/dat/.libs "$top/datinfo/.libs/datinfo" | told)" \
		"unusable the registry of DAT 2.0 can't be loaded: .*/libdat2.so.2: .*\
\\|install libdat2.so.2; then run ldconfig"
else
	skip "2.0: the registry can't be loaded" 'datinfo is not linked with shared libraries'
fi
rm "$tmp/libdat2.so.2"
edition 1.2
cause 'the library of an old provider is missing' \
	"the library can't be loaded: .*\\|replace it by libdaplcma.so.1, which takes the same .*" \
	"$tmp/libdaplscm.so.1" 'mlx5_0 1'
# What can't be opened is the pipes, or the line, the registry, the library.
if [ -e "$top/datinfo/.libs/datinfo" ]; then
	line it "$fake" fake0 >"$tmp/dat.conf"
	# shellcheck disable=SC3045 # of "ulimit -n", which every sh of Linux has
	result 'descriptors are few: no remedy is to install what is there' \
		"$(for few in 4 5 6 7 8 9 10 11 12 13 14 15 16; do
			(ulimit -n "$few"; LD_LIBRARY_PATH=$top/dat/.libs \
				"$top/datinfo/.libs/datinfo") 2>"$tmp/errors" |
				told | sed -n 's/^opens .*/opens/p; 2p'
		done | uniq)" 'raise the limit of descriptors \(ulimit -n\)\|opens'
else
	skip 'descriptors are few: no remedy is to install what is there' \
		'datinfo is not linked with shared libraries'
fi
# The wait for it ends at once, as if 30 s were over.
line it "$tmp/hang.so" '' >"$tmp/dat.conf"
result 'a provider hangs' "$(LD_PRELOAD="$tmp/poll.so" "$datinfo" 2>&1 | told)" \
	'unusable dat_ia_open did not return within 30 s\|see whether a name server answers.*'
result 'a provider hangs, and the time for it was given' \
	"$(LD_PRELOAD="$tmp/poll.so" "$datinfo" --wait 7 2>&1 | told)" \
	'unusable dat_ia_open did not return within 7 s\|see whether a name server answers.*'
# That somebody sets the clock does not shorten the wait: each reading of it is an hour later.
cat >"$tmp/time.c" <<-'EOF'
	#include <time.h>

	time_t time(time_t *at)
	{
		static time_t now;

		now += 3600;
		if (at)
			*at = now;
		return now;
	}
EOF
$cc -shared -fPIC -fno-builtin -o "$tmp/time.so" "$tmp/time.c" || exit 99
line it "$tmp/idle.so" '' >"$tmp/dat.conf"
result 'the clock is set while a name is opened' \
	"$(LD_PRELOAD="$tmp/time.so" "$datinfo" 2>&1 | told)" \
	'unusable dat_ia_open returned DAT_PROVIDER_NOT_FOUND DAT_.*\|ask the documentation .*'

# ---- lines

line it "$fake" fake0 >"$tmp/dat.conf"
result 'a name opens' "$("$datinfo" | told)" 'opens [^|]*'
result 'a name that was asked for has library and attributes' \
	"$("$datinfo" it |
		sed -n 's/ *library .*libfakedat.so/library/p; s/ *max_eps .*/max_eps/p')" \
	'library\|max_eps'
result 'columns have names' "$("$datinfo" | sed -n 1,2p)" \
	"$tmp/dat.conf\\| line name DAT state    address, or cause and remedy"
edition 2.0
line it "$fake" fake0 >"$tmp/dat.conf"
result 'a name of DAT 2.0 has its registry, library and attributes, and the named ones' \
	"$("$datinfo" it | sed -n 's/ *registry .*libdat2/libdat2/p
		s/ *library .*libfakedat2.so/library/p
		s/ *\(zb_supported\) .*/\1/p; s/  *\(DAT_IB_PORT_NUMBER\) */\1 /p')" \
	'libdat2.so.2\|library\|zb_supported\|DAT_IB_PORT_NUMBER [0-9]+'
edition 1.2
echo "\"a \\\"name\\\" \" u1.2 nonthreadsafe default $fake dapl.1.2 fake0 \"\"" >"$tmp/dat.conf"
result 'a name may have blanks and quotes' "$("$datinfo" | sed -n 3p)" \
	' *1 a "name"  *1.2 opens .*'
line it "$fake" fake0 | sed 's/u1.2/u3.0/' >"$tmp/dat.conf"
result 'a line for DAT 3.0 is not opened' "$("$datinfo" | told)" \
	'other for DAT 3.0; the editions are 1.2 and 2.0'
line it "$fake" fake0 | sed 's/u1.2/u1.1/' >"$tmp/dat.conf"
result 'a line for DAT 1.1 is of no use to programs' "$("$datinfo" | told)" \
	'unusable the line is for DAT 1.1, and programs want 1.2\|write u1.2 in the second field'
line it "$fake" fake0 | sed 's/u1.2/u1.3/' >"$tmp/dat.conf"
result 'a line for DAT 1.3 opens' "$("$datinfo" | told)" 'opens [^|]*'
echo 'too few' >"$tmp/dat.conf"
result 'a bad line is listed' "$("$datinfo")" \
	'.*\| *1 - * - *bad line fewer than eight fields'
escape=$(printf '\033')
{
	line "r$escape" "lib${escape}cé.so" 0
	line "r$escape" libnone.so 0
	line é libnone.so 0
} >"$tmp/dat.conf"
result 'a terminal gets no control characters of the file: the list' \
	"$("$datinfo" --all | tail -n +3)" \
	".* r\\?  *1\\.2 .*: lib\\?cé.so: .* é  *1\\.2 .*"
result 'a terminal gets no control characters of the file: the names' \
	"$("$datinfo" none 2>&1 | tail -n 1)" '.* are: r\? é'
result 'a terminal gets no control characters of the file: --check' \
	"$("$datinfo" --check "$tmp/dat.conf")" '.*: used only if lib\?cé.so of line 1 .*'
{ line one "$fake" fake0; line two "$tmp/idle.so" ''; line two "$fake" fake0; } >"$tmp/dat.conf"
result 'an unknown name lists the names and the file' "$("$datinfo" three 2>&1; echo $?)" \
	"datinfo: $tmp/dat.conf has no name three\\|The names of $tmp/dat.conf are: one two\\|1"
result 'a name that opens has status 0' "$("$datinfo" one >"$tmp/out"; echo $?)" 0
result 'a name that does not open has status 1' "$("$datinfo" two >"$tmp/out"; echo $?)" 1
result 'a list has status 1 if one of its names does not open' \
	"$("$datinfo" >"$tmp/out"; echo $?)" 1
line one "$fake" fake0 >"$tmp/opens"
result 'a list of names that open has status 0' \
	"$(DAT_OVERRIDE=$tmp/opens "$datinfo" >"$tmp/out"; echo $?)" 0
sed 's/u1.2/u3.0/' "$tmp/opens" >"$tmp/other"
result 'a list has status 0 if a line is of no edition' \
	"$(DAT_OVERRIDE=$tmp/other "$datinfo" >"$tmp/out"; echo $?)" 0
{ cat "$tmp/opens"; echo 'too few'; } >"$tmp/bad"
result 'a list has status 1 if a line is bad' \
	"$(DAT_OVERRIDE=$tmp/bad "$datinfo" >"$tmp/out"; echo $?)" 1
result 'only the name that was asked for is opened' \
	"$("$datinfo" one | sed -n 's/ *\([0-9]\) \([a-z]*\) *1.2 .*/\1 \2/p')" '1 one'
result 'the library that opens counts, not its neighbour' \
	"$("$datinfo" two | sed -n 's/ *\([0-9]\) two *1.2 \([a-z]*\) .*/\1 \2/p')" \
	'2 unusable\|3 opens'
result 'a file that is not there is said' "$(DAT_OVERRIDE=$tmp/none "$datinfo" 2>&1; echo $?)" \
	"datinfo: $tmp/none: No such file .*; datinfo --generate prints one for this host\\|1"
mkfifo "$tmp/fifo" # without a writer
result 'a FIFO is said to be none' "$(DAT_OVERRIDE=$tmp/fifo "$datinfo" 2>&1; echo $?)" \
	"datinfo: $tmp/fifo: it is no regular file; datinfo --generate .*\\|1"

# like DAT...: names that do not open, for like causes
like() {
	for version; do
		line "n$version" libnone.so 0 | sed "s/u1.2/u$version/"
	done
}
{ like 1.2 1.2 2.0 2.0 1.2 2.0 2.0; line opens "$fake" fake0; } >"$tmp/dat.conf"
result 'of names that do not open for like causes two are shown, and the others counted' \
	"$("$datinfo" | sed -n 's/ *\([0-9]\) \([no][^ ]*\) .*/\1 \2/p
		s/^ *\([0-9] more.*\)/\1/p')" \
	"1 n1.2\\|2 n1.2\\|3 n2.0\\|4 n2.0\\|8 opens\\|1 more name for DAT 1.2, which does not .*\
\\|2 more names for DAT 2.0, which do not open for causes like these; --all shows them"
result '--all shows all names' "$("$datinfo" --all | grep -c '[1-8] [no].* [0-9][.][0-9] ')" 8
result 'names that were asked for are all shown' "$("$datinfo" n2.0 | grep -c '[1-8] n2.0')" 4
like 3.0 3.0 3.0 >"$tmp/dat.conf"
result 'of names that no edition has two are shown' "$("$datinfo" | sed -n '4,$s/^ *//p')" \
	'2 n3.0 3.0 other [^|]*\|1 more name for other versions of DAT, .*'

# ---- --check

result 'the dat.conf that is installed has no bad line' \
	"$("$datinfo" --check "$src/dat.conf"; echo $?)" 0
{
	line good1 libdaplcma.so.1 'ib0 0'
	echo
	echo 'too few'
	line bad2 libdaplcma.so.1 'ib0 0 junk'
	line bad3 libdaplcma.so.1 'ib0 0x'
	line bad4 libdaplcma.so.1 ''
	line good5 libdaplofi.so.1 'tcp'
	line good6 libdaplofi.so.1 'tcp eth0 0 '
	line bad7 libdaplofi.so.1 'tcp eth0 junk'
	line bad8 libdaplofi.so.1 ' '
	line good9 other.so 'as it likes 1 2 3'
} >"$tmp/check"
result '--check prints file, line and reason of each bad line' \
	"$("$datinfo" --check "$tmp/check" | sed "s,$tmp/,,")" "check:3: fewer than eight fields\
\\|check:4: field 7 must be .*\\|check:5: field 7 must be .*\
\\|check:6: field 7 names no interface.*\\|check:9: field 7 must have .*\
\\|check:10: field 7 names no libfabric provider"
result '--check has status 1 then' "$("$datinfo" --check "$tmp/check" >"$tmp/out"; echo $?)" 1
result '--check says that a file is not there' \
	"$("$datinfo" --check "$tmp/none" 2>&1; echo $?)" "datinfo: $tmp/none: No such file .*\\|1"

# checked WHY WANTED LINE: --check has WANTED, which is empty if nothing is wrong, for such a line
checked() {
	printf '%s\n' "$3" >"$tmp/check"
	status=0
	got=$("$datinfo" --check "$tmp/check") || status=1
	result "--check: $1" "$status $(printf '%s\n' "$got" | sed "s,^$tmp/check:,,")" \
		"$(if [ -z "$2" ]; then echo '0 '; else echo "1 $2"; fi)"
}
checked 'a line for the kernel' '1: k is for consumers of the kernel, .*' \
	"$(line it libnone.so 0 | sed 's/u1/k1/')"
checked 'a line that is not used by intention' '' "$(line it libnone.so 0
		line x libnone.so 0 | sed 's/ def/ nondef/')"
checked 'a version that no edition has' '1: there is no DAT 3.0: write u1.2 or u2.0' \
	"$(line it libnone.so 0 | sed 's/u1.2/u3.0/')"
checked 'a version that is too old' '1: programs want DAT 1.2: write u1.2' \
	"$(line it libnone.so 0 | sed 's/u1.2/u1.1/')"
checked 'a thread safety with more behind it' '1: field 3 should be threadsafe or .*' \
	"$(line it libnone.so 0 | sed 's/threadsafe/threadsafely/')"
checked 'a default with more behind it' '1: field 4 should be default or .*' \
	"$(line it libnone.so 0 | sed 's/default/defaults/')"
checked 'a library that is no provider' '1: .*/gone.so is no DAT provider: .*' \
	"$(line it "$tmp/gone.so" 0)"
checked 'a provider' '' "$(line it "$fake" 0)"
cat >"$tmp/once.c" <<'END'
#include <stdio.h>
static void __attribute__((constructor)) once(void)
{
	FILE *loads = fopen(LOADS, "a");

	fputs("loaded\n", loads);
	fclose(loads);
}
END
$cc -shared -fPIC -DLOADS="\"$tmp/loads\"" -o "$tmp/once.so" "$tmp/once.c" || exit 99
for name in a b; do
	line $name "$tmp/once.so" 0
	line $name "$tmp/once.so" 0 | sed 's/1\.2/2.0/g'
done >"$tmp/check"
result '--check: each edition loads a library once' \
	"$("$datinfo" --check "$tmp/check" >"$tmp/out"; grep -c . "$tmp/loads")" 2
checked 'a library of the other edition' \
	'1: libdaplcma2.so.2 is a provider of DAT 2.0, and the line is for 1.2' \
	"$(line it libdaplcma2.so.2 'ib0 0')"
checked 'a libfabric provider that can not be' \
	'1: field 7: libdaplofi can use tcp and verbs of libfabric, not shm' \
	"$(line it libdaplofi.so.1 'shm 0')"
checked 'a port that no device has' '1: field 7: a device has no more than 255 ports' \
	"$(line it libdaplcma.so.1 'mlx5_0 256')"
checked 'a name twice' '2: never used: line 1 has the same name, .* and library' \
	"$(line it libnone.so 0; line it libnone.so 1)"
checked 'names twice, in turn' '3: never used: line 1 .*\|4: never used: line 2 .*' \
	"$(for name in a b a b; do line $name libnone.so 0; done)"
checked 'a name for each edition' '' \
	"$(line it libnone.so 0; line it libnone.so 0 | sed 's/u1.2/u2.0/')"
line it libnone.so 0 >"$tmp/check"
line it libnone2.so 0 >>"$tmp/check"
result "--check: a line that serves if another's library is missing is none to correct" \
	"$("$datinfo" --check "$tmp/check"; echo $?)" \
	"$tmp/check:2: note: used only if libnone.so of line 1 can't be loaded\\|0"
checked 'apostrophes' "1: more than eight fields\\|1: a field is quoted by \", not by '" \
	"$(line it libnone.so 0 0 | sed "s/\"0\"/'0 0'/")"
checked 'the quotes of typography' \
	'1: more than eight .*\|1: a field is quoted by ", not by ..?.?' \
	"$(line it libnone.so 0 | sed 's/"0"/“0 0”/')"
checked 'an apostrophe in a comment' '' "$(line it libnone.so 0) # it's 'so'"
checked 'an empty file' ' no line defines a name; datinfo --generate prints lines .*' ''
: >"$tmp/empty"
result 'an empty file has a remedy' \
	"$(DAT_OVERRIDE=$tmp/empty "$datinfo" 2>&1 >"$tmp/out"; echo $?)" \
	"datinfo: $tmp/empty: no line defines a name; datinfo --generate prints lines .*\\|1"

# ---- --json

{
	line one "$fake" fake0
	line two libnone.so 'ib0 0' | sed 's/u1.2/u2.0/'
	printf '"b\303\244r-\377-\\"\\\\" u1.2 nonthreadsafe default'
	printf ' libnone.so dapl.1.2 "\001" ""\n'
	line it "$fake" fake0 | sed 's/u1.2/u3.0/'
	echo 'too few'
} >"$tmp/dat.conf"
"$datinfo" --json >"$tmp/json"
if python3 -c '' 2>"$tmp/out"; then
	result 'JSON has each line, with reason and remedy apart' "$(python3 -c '
import json, sys
for name in json.load(open(sys.argv[1], encoding="utf-8"))["names"]:
    print(name["line"], name["state"], name["edition"],
        [key for key in ("reason", "remedy", "attributes") if name[key] is not None])
' "$tmp/json" 2>&1)" "1 opens 1.2 \\['attributes'\\]\\|2 unusable 2.0 \\['reason', 'remedy'\\]\
\\|3 unusable 1.2 \\['reason', 'remedy'\\]\\|4 other None \\['reason'\\]\
\\|5 bad line None \\['reason'\\]"
	result 'each line has the same members in JSON; what is not known is null' "$(python3 -c '
import json, sys
names = json.load(open(sys.argv[1], encoding="utf-8"))["names"]
print(len({tuple(name) for name in names}), names[0]["versions"]["libfabric"],
    [key for key in names[4] if names[4][key] is not None])
' "$tmp/json" 2>&1)" "1 None \\['line', 'state', 'reason'\\]"
else
	skip 'JSON has each line, with reason and remedy apart' 'there is no python3'
	skip 'each line has the same members in JSON; what is not known is null' 'no python3'
fi

json_reasons() {
	for list in "$tmp/none" "$tmp/empty" "$tmp/opens x y" "$tmp/opens one"; do
		# shellcheck disable=SC2086 # words
		set -- $list
		DAT_OVERRIDE=$1 "$datinfo" --json ${2:+"$2"} ${3:+"$3"} 2>"$tmp/errors" |
			python3 -c '
import json, sys
object = json.load(sys.stdin)
print(len(object["names"]), object["reason"])' 2>&1
	done
}
if python3 -c '' 2>"$tmp/out"; then
	result 'JSON is an object without names, too, and has the reason' "$(json_reasons)" \
		"0 No such file .*\\|0 no line defines a name\\|0 no line defines x, y\\|1 None"
else
	skip 'JSON is an object without names, too, and has the reason' 'no python3'
fi

# ---- hosts: a network of its own, and /sys/class and /dev as a script makes them

# shellcheck disable=SC2016 # the shell there expands it
host() {
	unshare -m -n sh -ec 'mount -t tmpfs none /sys/class; mount -t tmpfs none /dev
		[ ! -d /sys/module ] || mount -t tmpfs none /sys/module
		: >/dev/null; chmod 666 /dev/null
		has_device() {
			port=/sys/class/infiniband/fake0/ports/1
			mkdir -p $port/gid_attrs/ndevs
			echo "4: ACTIVE" >$port/state
			echo Ethernet >$port/link_layer
			echo "${1:-}" >$port/gid_attrs/ndevs/0
		}
		has_nodes() {
			mkdir -p /dev/infiniband
			for node; do : >/dev/infiniband/$node; chmod 666 /dev/infiniband/$node; done
		}
		'"$1" 2>&1
}
as_nobody="setpriv --reuid 65534 --regid 65534 --clear-groups"
no_host=
if ! host 'ip link set lo up; ip link add eth7 type veth peer name eth8' >"$tmp/out"; then
	no_host='namespaces cannot be made here, or there is no ip'
fi
no_user=$no_host
if [ -z "$no_user" ] && ! $as_nobody test -x "$datinfo" 2>"$tmp/out"; then
	no_user='no other user can run datinfo here'
fi

# on_host TEXT WANTED LIBRARY PARAMS SCRIPT: as cause, on a host that SCRIPT makes
on_host() {
	if [ -n "$no_host" ]; then
		skip "$1" "$no_host"
	elif [ ! -e "$3" ]; then
		skip "$1" "$(basename "$3") was not built"
	else
		line it "$3" "$4" >"$tmp/dat.conf"
		result "$dat: $1" "$(host "$5; $datinfo" | told)" "$2"
	fi
}
# by_nobody: the same, but datinfo runs as another user
by_nobody() {
	if [ -n "$no_user" ]; then
		skip "$1" "$no_user"
	else
		on_host "$1" "$2" "$3" "$4" "$5; exec $as_nobody $datinfo"
	fi
}
all='has_device lo; has_nodes uverbs0 rdma_cm'

eth7='ip link add eth7 type veth peer name eth8'

host_causes() {
	on_host 'libdaplcma on a host without an RDMA device' \
		'unusable this host has no RDMA .*: .*\|load .* ofi-tcp .*' "$cma" 'ib0 0' :
	on_host "libfabric's verbs on a host without an RDMA device" \
		'unusable this host has no RDMA .*: .*\|load .* ofi-tcp .*' "$ofi" verbs :
	on_host 'there are no device nodes' \
		'unusable there is no /dev/infiniband: .* not loaded\|modprobe ib_uverbs' \
		"$cma" 'lo 0' 'has_device lo'
	if [ -d /sys/module ]; then
		on_host 'a container lacks the device nodes' \
			'unusable there is no /dev/infiniband, although .* is loaded\|give .*' \
			"$cma" 'lo 0' 'has_device lo; mkdir /sys/module/ib_uverbs'
	else
		skip 'a container lacks the device nodes' 'there is no /sys/module'
	fi
	on_host 'there is no node of a device' \
		'unusable there is no /dev/infiniband/uverbs0: .* not loaded\|modprobe ib_uverbs' \
		"$cma" 'lo 0' 'has_device lo; has_nodes rdma_cm'
	on_host 'there is no node of the connection manager' \
		'unusable there is no /dev/infiniband/rdma_cm: .* not loaded\|modprobe rdma_ucm' \
		"$cma" 'lo 0' 'has_device lo; has_nodes uverbs0'
	by_nobody 'the node of a device is closed to this user' \
		'unusable no permission to open /dev/infiniband/uverbs0 \(mode 600, .*\)\|run .*' \
		"$cma" 'lo 0' "$all; chmod 600 /dev/infiniband/uverbs0"
	by_nobody 'the node of the connection manager is closed to this user' \
		'unusable no permission to open /dev/infiniband/rdma_cm \(mode 660.*\)\|run .*' \
		"$cma" 'lo 0' "$all; chmod 660 /dev/infiniband/rdma_cm"
	on_host 'there is no such interface or device' \
		'unusable this host has no interface and no device ib7\|datinfo --generate .*' \
		"$cma" 'ib7 0' "$all"
	on_host 'an interface is down' 'unusable interface lo is down\|ip link set lo up' \
		"$cma" 'lo 0' "$all"
	on_host 'an interface has no address' \
		'unusable interface lo has no IP address\|ip address add ADDRESS dev lo' \
		"$cma" 'lo 0' "$all; ip link set lo up; ip address flush dev lo"
	on_host 'no interface has the address' \
		'unusable no interface of this host has the address 192.0.2.7\|correct .*' \
		"$cma" '192.0.2.7 0' "$all; ip link set lo up"
	on_host 'an interface belongs to no RDMA device' \
		'unusable interface lo \(127.0.0.1\) belongs to no RDMA device\|name .*' \
		"$cma" 'lo 0' 'has_device eth7; has_nodes uverbs0 rdma_cm; ip link set lo up'
	on_host 'an address belongs to no RDMA device' \
		'unusable interface lo \(127.0.0.1\) belongs to no RDMA device\|name .*' \
		"$cma" '127.0.0.1 0' 'has_device eth7; has_nodes uverbs0 rdma_cm; ip link set lo up'
	by_nobody 'too little memory may be locked' \
		'unusable only 64 KiB may be locked \(ulimit -l\)\|raise it in .*' \
		"$cma" 'lo 0' "$all; ip link set lo up; ulimit -l 64"
	on_host "otherwise the provider's own words are printed" \
		'unusable .+\|look for this message in libdaplcma\(7\)' \
		"$cma" 'lo 0' "$all; ip link set lo up"

	on_host 'libdaplofi opens an interface' \
		'opens 127.0.0.1, lo up, libfabric tcp' \
		"$ofi" 'tcp lo' 'ip link set lo up'
	on_host 'libdaplofi takes a number behind the interface, as libdaplcma does' \
		'opens 127.0.0.1, lo up, libfabric tcp' "$ofi" 'tcp lo 0 ' 'ip link set lo up'
	on_host 'libdaplofi on an interface that is down' \
		'unusable interface eth7 is down\|ip link set eth7 up' "$ofi" 'tcp eth7' "$eth7"
	on_host 'libdaplofi on an interface without an address' \
		'unusable interface eth7 has no IP address\|ip address add ADDRESS dev eth7' \
		"$ofi" 'tcp eth7' "$eth7; ip link set eth7 up"
	on_host 'libdaplofi on an address of an interface that is down' \
		'unusable interface lo is down\|ip link set lo up' \
		"$ofi" 'tcp 127.0.0.1' 'ip link set lo up
			ip link set lo down'
	on_host 'libdaplofi without such an interface' \
		'unusable this host has no interface and no device eth7\|datinfo --generate .*' \
		"$ofi" 'tcp eth7' :
	on_host 'libdaplofi with an IPv6 address of no interface' \
		'unusable no interface of this host has the address 2001:db8::7\|correct .*' \
		"$ofi" 'tcp 2001:db8::7' 'ip link set lo up'
	on_host 'a libfabric provider that there is not' \
		"unusable libfabric has no provider none, .*\\|fi_info .*" "$ofi" 'none 0' :
	on_host "libfabric's variable hides the provider" \
		'unusable FI_PROVIDER is "psm2,verbs", so libfabric has no .* tcp\|unset .*' \
		"$ofi" 'tcp lo' 'ip link set lo up; export FI_PROVIDER=psm2,verbs'
	on_host 'a libfabric provider without connected endpoints' \
		"unusable libfabric's shm has no connected endpoints .*\\|fi_.*" "$ofi" 'shm 0' :
	on_host 'libdaplofi without params' \
		'unusable field 7 names no libfabric provider\|dat.conf\(5\) .*' \
		"$ofi" '' :
	on_host 'no interface is up' \
		"unusable no network interface that is up has .*\\|look for .* libdaplofi\\(7\\)" \
		"$ofi" 'tcp 0' :
}
for edition in 1.2 2.0; do
	edition $edition
	host_causes
done
edition 1.2

# An interface with two addresses that belongs to a device, as the details and as JSON. A busy
# machine may take longer to open a name than datinfo waits.
location() {
	host "has_device eth7; $eth7; ip link set eth7 up; ip link set eth8 up
		ip address add 192.0.2.1/24 dev eth7; ip address add 192.0.2.2/24 dev eth7
		port=/sys/class/infiniband/fake0/ports/1; echo '100 Gb/sec (4X EDR)' >\$port/rate
		echo 20.1 >/sys/class/infiniband/fake0/fw_ver
		echo 0002:c903:0000:1234 >/sys/class/infiniband/fake0/node_guid
		mkdir \$port/gids; echo fe80::c903:1234 >\$port/gids/0; echo 0x1f >\$port/lid
		mkdir -p /sys/class/net/eth7; echo 10000 >/sys/class/net/eth7/speed
		echo 9000 >/sys/class/net/eth7/mtu
		$datinfo --wait 600 $*"
}
if [ -n "$no_host" ] || [ ! -e "$ofi" ]; then
	skip 'details have interface, link, speed, addresses, device and versions' 'as above'
	skip 'the list has interface, speed and device' 'as above'
	skip 'JSON has interface, link, speed, addresses, device and versions' 'as above'
else
	line it "$ofi" 'tcp 192.0.2.2' >"$tmp/dat.conf"
	result 'details have interface, link, speed, addresses, device and versions' \
		"$(location it | sed -n '/ versions /p; / interface /,/ port  /p' | tr -s ' ')" \
		" versions DAT 1.2, provider [0-9.]+, libfabric 1\\.[0-9]+, datinfo [0-9.]+\
\\| interface eth7, up, 10000 Mb/s, MTU 9000\\| addresses 192.0.2.1 192.0.2.2( [0-9a-f:]+)?\
\\| device fake0 port 1, Ethernet, ACTIVE, 100 Gb/sec \\(4X EDR\\), firmware 20.1\
\\| port GID fe80::c903:1234, GUID of the device 0002:c903:0000:1234, LID 31"
	result 'the list has interface, speed and device' "$(location | told)" \
		'opens 192.0.2.2, eth7 up 10000 Mb/s, fake0 port 1 ACTIVE, libfabric tcp'
	location --json it >"$tmp/json"
	if python3 -c '' 2>"$tmp/out"; then
		result 'JSON has interface, link, speed, addresses, device and versions' \
			"$(python3 -c '
import json, sys
name = json.load(open(sys.argv[1]))["names"][0]
if not name.get("interface"):
	sys.exit(str(name))
print(name["interface"]["name"], name["interface"]["state"], name["interface"]["speed"],
	name["interface"]["mtu"], *name["interface"]["addresses"][:2], *name["device"].values(),
	name["versions"]["api"], name["versions"]["firmware"], name["versions"]["libfabric"],
	len(name["attributes"]))' "$tmp/json" 2>&1)" \
			"eth7 up 10000 9000 192.0.2.1 192.0.2.2 fake0 1 Ethernet\
 ACTIVE 100 Gb/sec \\(4X EDR\\) 20.1 0002:c903:0000:1234 fe80::c903:1234 31 1.2 None 1\\.[0-9]+ 25"
	else
		skip 'JSON has interface, link, speed, addresses, device and versions' 'no python3'
	fi
fi

if [ -n "$no_host" ]; then
	skip '--check: a port that the device of this host lacks' "$no_host"
else
	line it libdaplcma.so.1 'fake0 2' >"$tmp/check"
	result '--check: a port that the device of this host lacks' \
		"$(host "has_device eth7; $datinfo --check $tmp/check")" \
		"$tmp/check:1: field 7: fake0 has no port 2"
fi

# A file that is no library stands where the loader looks first.
: >"$tmp/libfabric.so.1"
if [ -e "$ofi" ]; then
	line it "$ofi" 'tcp lo' >"$tmp/dat.conf"
	result 'libfabric is missing' "$(LD_LIBRARY_PATH=$tmp "$datinfo" | told)" \
		"unusable libfabric can't be loaded: .*\\|install libfabric, 1.11 or later"
else
	skip 'libfabric is missing' 'libdaplofi.so was not built'
fi

# ---- the provider's own words: what dtest prints of them, which is one line

# on_host_says TEXT WANTED LIBRARY PARAMS SCRIPT: as on_host
on_host_says() {
	if [ -n "$no_host" ]; then
		skip "dtest: $1" "$no_host"
	elif [ ! -e "$3" ]; then
		skip "dtest: $1" "$(basename "$3") was not built"
	else
		line it "$3" "$4" >"$tmp/dat.conf"
		result "dtest: $1" "$(host "$5 $top/dtest/dtest -q -P it" |
			sed -n 's/^lib[^ ]*: //p')" "$2"
	fi
}
by_nobody_says() {
	if [ -n "$no_user" ]; then
		skip "dtest: $1" "$no_user"
	else
		on_host_says "$1" "$2" "$3" "$4" "$5; exec $as_nobody"
	fi
}
on_host_says 'there is no device' 'open ib0: this host has no RDMA device: .*' "$cma" 'ib0 0' ''
on_host_says 'there are no device nodes' \
	'open lo: there is no /dev/infiniband: the module ib_uverbs is not loaded' \
	"$cma" 'lo 0' 'has_device lo;'
on_host_says 'there is no node of a device' 'open fake0: there is no /dev/infiniband/uverbs0: .*' \
	"$cma" 'fake0 1' 'has_device lo; has_nodes rdma_cm;'
by_nobody_says 'the node of a device is closed' \
	'open lo: no permission to open /dev/infiniband/uverbs0 \(mode 600, user 0, group 0\)' \
	"$cma" 'lo 0' "$all; chmod 600 /dev/infiniband/uverbs0"
by_nobody_says 'the node of the connection manager is closed' \
	'open lo: no permission to open /dev/infiniband/rdma_cm \(mode 600, user 0, group 0\)' \
	"$cma" 'lo 0' "$all; chmod 600 /dev/infiniband/rdma_cm"
on_host_says "libfabric's verbs, there is no device" 'open: this host has no RDMA device: .*' \
	"$ofi" 'verbs 0' ''
on_host_says "libfabric's verbs, there are no device nodes" \
	'open: there is no /dev/infiniband: .*' \
	"$ofi" 'verbs 0' 'has_device lo;'
by_nobody_says "libfabric's verbs, the node of a device is closed" \
	'open: no permission to open /dev/infiniband/uverbs0 \(mode 600, user 0, group 0\)' \
	"$ofi" 'verbs 0' "$all; chmod 600 /dev/infiniband/uverbs0"
on_host_says 'the interface is down' 'open lo: the network interface lo is down' \
	"$ofi" 'tcp lo' 'ip link set lo up; ip link set lo down;'
on_host_says 'the interface of the address is down' \
	'open 127.0.0.1: the network interface lo is down' \
	"$ofi" 'tcp 127.0.0.1' 'ip link set lo up; ip link set lo down;'
on_host_says 'the interface is down and has no address' \
	'open eth7: this network interface is down' \
	"$ofi" 'tcp eth7' "$eth7;"
on_host_says 'the interface has no address' \
	"open eth7: this network interface has no address for libfabric's tcp" \
	"$ofi" 'tcp eth7' "$eth7; ip link set eth7 up; ip address flush dev eth7;"
on_host_says 'there is no such place' \
	"open eth7: libfabric's tcp has no interface, address, domain or host of that name" \
	"$ofi" 'tcp eth7' ''
on_host_says 'no interface is up' \
	"open: no network interface that is up has an address for libfabric's tcp" "$ofi" tcp ''
for provider in udp shm 'tcp;ofi_rxm'; do
	on_host_says "libfabric's $provider" \
		"open: libfabric's $provider has no connected endpoints with RMA .*" \
		"$ofi" "$provider" 'ip link set lo up;'
done
on_host_says 'there is no such libfabric provider' 'open: libfabric has no provider nonesuch, .*' \
	"$ofi" 'nonesuch 0' ''
for params in 'tcp lo junk' 'tcp lo 0 0' '^tcp lo' ' '; do
	on_host_says "\"$params\"" "$tmp/dat.conf:1: field 7 .*, not \".*\"" "$ofi" "$params" ''
done
for params in 'lo 0 junk' 'lo 0x' ''; do
	on_host_says "\"$params\"" "$tmp/dat.conf:1: field 7 .*, not \".*\"" "$cma" "$params" ''
done
if [ -n "$no_host" ] || [ ! -e "$cma" ]; then
	skip 'dapltest: there is no device' 'as above'
	skip 'window: there is no device' 'as above'
else
	line it "$cma" 'ib0 0' >"$tmp/dat.conf"
	for tool in "dapltest/dapltest -T S -D it" 'examples/window it it'; do
		result "${tool%% *}: there is no device" \
			"$(host "$top/$tool" | sed -n 's/^lib[^ ]*: //p')" \
			'open ib0: this host has no RDMA device: .*'
	done
fi
on_host_says 'a library is no provider' \
	"it: $tmp/dat.conf:1: .*/gone.so is no provider: it has no dat_provider_init" \
	"$tmp/gone.so" '' ''

# ---- --generate

"$datinfo" --generate >"$tmp/generated"
if [ -e "$ofi" ]; then
	result '--generate prints lines that --check accepts' \
		"$(grep -c . "$tmp/generated" | sed 's/[1-9].*/some/'
		"$datinfo" --check "$tmp/generated")" some
else
	skip '--generate prints lines that --check accepts' 'there may be no line without libfabric'
fi
# as README.Debian says; the last line of libdapl2's file is not ended
for end in '' '\n'; do
	printf 'line 1\nline 2%b' "$end" >"$tmp/before"
	cp "$tmp/before" "$tmp/both"
	cat "$tmp/generated" >>"$tmp/both"
	printf 'later' >>"$tmp/before"
	printf 'later' >>"$tmp/both"
	cat "$tmp/generated" >>"$tmp/both"
	sh -c "$(sed -n "s,^\t\(perl .*\) /etc/dat.conf$,\1 $tmp/both,p" \
		"$src/debian/libdat1.README.Debian")"
	cmp "$tmp/before" "$tmp/both"
done >"$tmp/compared" 2>&1
result 'what was appended to a file can be removed again, to the byte' \
	"$(grep -c line "$tmp/both") $(cat "$tmp/compared")" '2 '
# generated NAME DAT WANTED: the names and parameters of the lines of this edition, but for those of
# the provider over libfabric if it was not built
generated() {
	result "$2: --generate has $1" "$("$datinfo" --check "$tmp/generated"
		sed -n "s/ u$2 .*dapl.$2 \"\(.*\)\" \"\"/:\1/p" "$tmp/generated" |
		if [ -e "$ofi" ]; then cat; else sed '/^ofi/d'; fi)" "$3"
}
if [ -n "$no_host" ]; then
	for edition in 1.2 2.0; do
		skip "$edition: --generate has the names that programs know" "$no_host"
		skip "$edition: --generate has names for InfiniBand and iWARP" "$no_host"
	done
else
	host "$all; ip link set lo up; $datinfo --generate" >"$tmp/generated"
	libfabric="" libfabric2=""
	[ ! -e "$ofi" ] || libfabric='\|ofi-tcp:tcp 0\|ofi-verbs:verbs lo\|ofi-tcp-lo:tcp lo'
	[ ! -e "$ofi" ] || libfabric2=$(echo "$libfabric" | sed 's/ofi-/ofi-v2-/g')
	generated 'the names that programs know' 1.2 \
		"OpenIB-cma:lo 0\\|OpenIB-cma-roe-lo:lo 0\\|OpenIB-fake0-1:fake0 1$libfabric"
	generated 'the names that programs know' 2.0 \
		"ofa-v2-lo:lo 0\\|ofa-v2-cma-roe-lo:lo 0\\|ofa-v2-fake0-1:fake0 1\
\\|ofa-v2-fake0-1s:fake0 1\\|ofa-v2-fake0-1u:fake0 1$libfabric2"
	# fake0: RoCE; hca0: InfiniBand with two ports, one without IPoIB; nic0: iWARP
	host "$all; ip link set lo up; ip link add ib0 type veth peer name eth9
		for port in hca0/ports/1 hca0/ports/2 nic0/ports/1; do
			port=/sys/class/infiniband/\$port; mkdir -p \$port/gid_attrs/ndevs
			echo InfiniBand >\$port/link_layer
		done
		echo Ethernet >\$port/link_layer
		echo '4: RNIC' >/sys/class/infiniband/nic0/node_type
		echo eth9 >\$port/gid_attrs/ndevs/0
		echo ib0 >/sys/class/infiniband/hca0/ports/1/gid_attrs/ndevs/0
		$datinfo --generate" >"$tmp/generated"
	# the loopback interface only reaches this host, so it comes last
	libfabric=$(echo "$libfabric" | sed 's/|ofi-tcp-lo/|ofi-verbs-ib0:verbs ib0\\&/')
	libfabric2=$(echo "$libfabric" | sed 's/ofi-/ofi-v2-/g')
	generated 'names for InfiniBand and iWARP' 1.2 \
		"OpenIB-cma:ib0 0\\|OpenIB-cma-1:lo 0\\|OpenIB-cma-2:eth9 0\
\\|OpenIB-cma-roe-lo:lo 0\\|OpenIB-fake0-1:fake0 1\\|OpenIB-hca0-1:hca0 1\\|OpenIB-hca0-2:hca0 2\
\\|OpenIB-iwarp:eth9 0\\|OpenIB-nic0-1:nic0 1$libfabric"
	generated 'names for InfiniBand and iWARP' 2.0 \
		"ofa-v2-ib0:ib0 0\\|ofa-v2-lo:lo 0\\|ofa-v2-eth9:eth9 0\
\\|ofa-v2-cma-roe-lo:lo 0\\|ofa-v2-fake0-1:fake0 1\\|ofa-v2-fake0-1s:fake0 1\
\\|ofa-v2-fake0-1u:fake0 1\\|ofa-v2-hca0-1:hca0 1\\|ofa-v2-hca0-1s:hca0 1\
\\|ofa-v2-hca0-1u:hca0 1\\|ofa-v2-hca0-2:hca0 2\\|ofa-v2-hca0-2s:hca0 2\\|ofa-v2-hca0-2u:hca0 2\
\\|ofa-v2-iwarp:eth9 0\\|ofa-v2-nic0-1:nic0 1\\|ofa-v2-nic0-1s:nic0 1\\|ofa-v2-nic0-1u:nic0 1\
$libfabric2"
fi
[ $failures -eq 0 ]
