#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Makes configure and what goes with it, in a tree that came without them.

cd "$(dirname "$0")" || exit
missing=
for tool in autoreconf automake libtoolize pkg-config; do
	command -v $tool >/dev/null || missing="$missing $tool"
done
if [ -n "$missing" ]; then
	echo "autogen.sh: missing:$missing (Debian: apt-get install autoconf automake libtool pkg-config)" >&2
	exit 1
fi
exec autoreconf --force --install
