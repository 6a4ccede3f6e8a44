# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Completion of bash for dtest, dapltest and datinfo, under all names that packages give them:
# options, what may follow an option, and names of dat.conf.

# _dat_words WORDS WORD: those that WORD begins
_dat_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2"); }

# _dat_files WORD
_dat_files() {
	compopt -o filenames
	mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

# _dat_after WORD: WORD is among those before the one that is completed
_dat_after() { [[ " ${COMP_WORDS[*]:1:COMP_CWORD-1} " == *" $1 "* ]]; }

# _dat_names EDITION: the names in dat.conf for that edition of DAT, or, if it is a dot, for both
_dat_names() {
	local conf=${DAT_OVERRIDE:-/etc/dat.conf}

	[[ -n ${DAT_OVERRIDE:-} || ! -e /etc/dat/dat.conf ]] || conf=/etc/dat/dat.conf
	sed -n "s/^[[:blank:]]*\([^#[:blank:]]*\)[[:blank:]]*u$1\..*/\1/p" "$conf" 2>/dev/null
}

# _dat_edition COMMAND: 2 for the tools of DAT 2.0
_dat_edition() { [[ $1 == *2 ]] && echo 2 || echo 1; }

_dat_dtest() {
	case $3 in
	-P) _dat_words "$(_dat_names "$(_dat_edition "$1")")" "$2" ;;
	-h) mapfile -t COMPREPLY < <(compgen -A hostname -- "$2") ;;
	-n | --port | -b | -B | -S | -d | --time | --wait) ;; # numbers
	*) _dat_words '-s -h -P -n --port -b -B -a -w -W -S --csv --json -D -t -u -d -c -p -v
		--time --wait --old -q --list -U -V --help --version' "$2" ;;
	esac
}

_dat_dapltest() {
	case $3 in
	-T) _dat_words 'S T P Q L F' "$2" ;;
	-D) _dat_words "$(_dat_names "$(_dat_edition "$1")")" "$2" ;;
	-R) _dat_words 'HT LL EC PM BE' "$2" ;;
	-s) mapfile -t COMPREPLY < <(compgen -A hostname -- "$2") ;;
	-m) ! _dat_after P || _dat_words 'b p' "$2" ;;
	-f)
		if _dat_after F; then
			_dat_words 'hwconn endpoint pz mem connmgt queryinfo' "$2"
		else
			_dat_files "$2"
		fi
		;;
	-n | -i | -t | -w | -p) ;; # numbers
	*) _dat_words '-T -D -s -n -d -dd -R -i -t -w -V -P -Q -r -m -p -f client server SR RW RR
		--help --version' "$2" ;;
	esac
}

_dat_datinfo() {
	case $3 in
	--wait) return ;; # a number
	--peer)
		mapfile -t COMPREPLY < <(compgen -A hostname -- "$2")
		return
		;;
	esac
	if _dat_after --check; then
		_dat_files "$2"
	else
		_dat_words "--all --json --check --generate --peer --wait -h -V --help --version
			$(_dat_names .)" "$2"
	fi
}

complete -F _dat_dtest dtest dtest1 dtest2
complete -F _dat_dapltest dapltest dapltest1 dapltest2
complete -F _dat_datinfo datinfo
