#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The rooms of the core, udapl/ROOM/: each uses only those below it. What the linker knows is looked
# at, in the objects of the build that the tests are linked with: for each symbol that an object
# needs, which object defines it. Then the includes. The files of the registry, and those of a tool,
# need each other in no circle, either. Prints TAP.

# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
top_srcdir=${top_srcdir:-.}
cd "${top_builddir:-.}" || exit 99
LC_ALL=C
export LC_ALL

rooms='base host core memory event endpoint listen entry' # from the ground up
others='dat tools dapltest dtest datinfo'
# Calls that go up all the same: the name, and why.
upcalls='
obj_kinds            entry/kinds.c alone knows the objects of all rooms, object.c their sizes
ep_count_receive     where completions are counted, that of a receive is, by a direct call
ep_completion_seen   a completion that ends something is told to its endpoint, by a direct call
up_dev_fatal         a descriptor in error is found below, and ends the connections above
'
named=$(echo "$upcalls" | awk 'NF { print $1 }' | tr '\n' ' ')

# symbols_in: of "OBJECT SOURCE NAME" prints "NAME DEFINES|NEEDS SYMBOL" for each symbol of each
# object, unless an earlier build has left it, and the source has gone
symbols_in() {
	while read -r object source name; do
		[ ! -f "$top_srcdir/$source.c" ] || echo "$object $name"
	done >"$work/objects"
	# shellcheck disable=SC2046 # paths without blanks
	nm -A $(cut -d ' ' -f 1 "$work/objects") </dev/null | awk -v objects="$work/objects" '
		BEGIN {
			while ((getline <objects) > 0)
				file[$1] = $2
		}
		{
			at = index($0, ":")
			name = file[substr($0, 1, at - 1)]
			n = split(substr($0, at + 1), symbol, " ")
		}
		n == 2 && symbol[1] == "U" { print name, "NEEDS", symbol[2] }
		n == 3 && symbol[2] ~ /[A-TV-Z]/ { print name, "DEFINES", symbol[3] }'
}

# "ROOM/FILE DEFINES|NEEDS SYMBOL" of each object of the core, and of the transports
symbols() {
	for room in $rooms verbs ofi; do
		for object in udapl/"$room"/.libs/*.o; do
			name=${object##*/}
			case $name in
			*_debug_la-*) name=${name#*_debug_la-} ;;
			*-*) continue ;; # of a product, whose objects may have no symbols
			esac
			echo "$object udapl/$room/${name%.o} $room/${name%.o}"
		done
	done | symbols_in
}

# The same of the registry or of a tool: its folder is $1.
symbols_of() {
	for object in "$1"/*.o "$1"/.libs/*.o; do
		name=${object##*/}
		case $name in
		"$1"-* | lib"$1"_la-* | lib"$1"2_la-*) name=${name#*-} ;;
		*) continue ;; # of a test
		esac
		echo "$object $1/${name%.o} $1/${name%.o}"
	done | symbols_in
}

# What points up, of the two kinds of lines that symbols prints; and entries of upcalls for nothing.
pointing_up() {
	awk -v rooms="$rooms" -v upcalls="$named" '
		function room(file) { return floor[substr(file, 1, index(file, "/") - 1)] }
		BEGIN {
			n = split(rooms, names, " ")
			for (i = 1; i <= n; i++)
				floor[names[i]] = i
			n = split(upcalls, names, " ")
			for (i = 1; i <= n; i++)
				named[names[i]] = 1
		}
		$2 == "DEFINES" { by[$3] = $1 }
		$2 == "NEEDS" { from[++needs] = $1; what[needs] = $3 }
		END {
			for (i = 1; i <= needs; i++) {
				to = by[what[i]]
				if (to == "" || !room(to))
					continue
				if (!room(from[i])) # a transport
					up = what[i] !~ /^up_/ && room(to) > floor["host"]
				else
					up = room(to) > room(from[i])
				if (up && what[i] in named)
					used[what[i]] = 1
				else if (up)
					print from[i] ".c needs " what[i] " of " to ".c"
			}
			for (name in named)
				if (!(name in used))
					print name " does not go up"
		}'
}

# circles FOLDERS: their files that are left when each one is taken away that needs no other that is
# left, or that none of these needs: they need each other in circles. Upcalls do not count.
circles() {
	awk -v folders=" $1 " -v upcalls="$named" '
		BEGIN {
			n = split(upcalls, names, " ")
			for (i = 1; i <= n; i++)
				named[names[i]] = 1
		}
		index(folders, " " substr($1, 1, index($1, "/") - 1) " ") == 0 { next }
		{ left[$1] = 1 }
		$2 == "DEFINES" { by[$3] = $1 }
		$2 == "NEEDS" && !($3 in named) { from[++needs] = $1; what[needs] = $3 }
		END {
			do {
				removed = 0
				split("", held)
				split("", needed)
				for (i = 1; i <= needs; i++) {
					to = by[what[i]]
					if (to != from[i] && to in left && from[i] in left) {
						sub(" " to "$", "", held[from[i]])
						held[from[i]] = held[from[i]] " " to
						needed[to] = 1
					}
				}
				for (file in left)
					if (!(file in held) || !(file in needed)) {
						delete left[file]
						removed++
					}
			} while (removed)
			for (file in left)
				print file " needs" held[file]
		}'
}

# Of other rooms a file includes the header with the name of the room, or, on the ground, any.
including_up() {
	for room in $rooms; do
		below="${below:+$below|}$room"
		grep -nE '^#include "' "$top_srcdir"/udapl/"$room"/*.[ch] |
			sed "s|^$top_srcdir/||" |
			grep -vE "\"([a-z_]+\.h|transport\.h|(base|host|core)/[a-z_]+\.h)\"" |
			grep -vE "\"($below)/\1\.h\"" | grep -vE '"([a-z]+)/\1\.h"' || :
		grep -noE '^#include "[a-z]+/' "$top_srcdir"/udapl/"$room"/*.[ch] |
			sed "s|^$top_srcdir/||" | grep -vE "\"($below)/" || :
	done
}

work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
echo 1..6
symbols=$(symbols)
objects=$(echo "$symbols" | cut -d ' ' -f 1 | sort -u | wc -l)
sources=$(find "$top_srcdir"/udapl/*/ -name '*.c' | wc -l)
# fast_post.c is compiled into each transport
none "the objects of all rooms are there" "$([ "$objects" -ge $((sources * 2 / 3)) ] ||
	echo "$objects of $sources")"
none "no room needs what one above it defines, but for the named upcalls" \
	"$(echo "$symbols" | pointing_up)"
none "no files of the core need each other in a circle" "$(echo "$symbols" | circles "$rooms")"
none "no room includes a header of one above it, nor one that is private" "$(including_up)"
none "the objects of the registry and of the tools are there" "$(for folder in $others; do
	objects=$(symbols_of "$folder" | cut -d ' ' -f 1 | sort -u | wc -l)
	sources=$(find "$top_srcdir/$folder" -name '*.c' | wc -l)
	[ "$objects" -eq "$sources" ] || echo "$folder: $objects of $sources"
done)"
none "no files of the registry, or of a tool, need each other in a circle" \
	"$(for folder in $others; do symbols_of "$folder" | circles "$folder"; done)"
[ $failures -eq 0 ]
