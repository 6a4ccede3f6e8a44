#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Makes configure and the files that it needs, in a tree from the repository.

cd "$(dirname "$0")" || exit
missing=
for tool in autoreconf automake libtoolize pkg-config; do
	command -v $tool >/dev/null || missing="$missing $tool"
done
if [ -n "$missing" ]; then
	echo "autogen.sh: missing:$missing" \
		"(Debian: apt-get install autoconf automake libtool pkg-config)" >&2
	exit 1
fi
trap : HUP INT TERM # they end autoreconf
autoreconf --force --install && exit
rc=$?
rm -f configure # there may be one without all that it needs
exit $rc
