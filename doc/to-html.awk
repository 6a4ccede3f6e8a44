# SPDX-License-Identifier: BSD-2-Clause
# HTML of a text of the guide, whose links lead to files of the folder of doc/to-html. Words such as
# dat(7), unless they are code, become links to the pages.
#
# text: its path from the top of the sources; pages: names such as dat.7.

BEGIN {
	count = split(pages, list, " ")
	for (i = 1; i <= count; i++)
		page[list[i]]
}

{
	rest = $0
	while (match(rest, /<[^>]*>/)) {
		start = RSTART
		size = RLENGTH
		printf "%s%s", words(substr(rest, 1, start - 1)), tag(substr(rest, start, size))
		rest = substr(rest, start + size)
	}
	print words(rest)
}

# The file for the target of a link.
function file_of(target,    anchor) {
	if (target ~ /^[a-z]+:/)
		return target
	if (match(target, /#.*/))
		anchor = substr(target, RSTART)
	sub(/#.*/, "", target)
	if (target == "" || target ~ /\.svg$/) {
		sub(/.*\//, "", target)
		return target anchor
	}
	if (target == "README.md" && text !~ /\//)
		target = "index"
	sub(/\/README\.md$/, "", target)
	sub(/\.md$/, "", target)
	sub(/.*\//, "", target)
	return target ".html" anchor
}

# A tag, with the link that it has. Sets how deep what follows is in code and other links.
function tag(whole,    name, before, target) {
	match(whole, /^<\/?[a-z0-9]*/)
	name = substr(whole, 2, RLENGTH - 1)
	if (name ~ /^(a|code|pre)$/)
		quoted++
	else if (name ~ /^\/(a|code|pre)$/)
		quoted--
	if (!match(whole, /(href|src)="[^"]*/))
		return whole
	before = substr(whole, 1, RSTART - 1)
	target = substr(whole, RSTART, RLENGTH)
	whole = substr(whole, RSTART + RLENGTH)
	name = substr(target, 1, index(target, "\""))
	return before name file_of(substr(target, length(name) + 1)) whole
}

function words(plain,    done, word, name) {
	while (!quoted && match(plain, /[a-z][a-z0-9_.-]*\([1-8]\)/)) {
		word = name = substr(plain, RSTART, RLENGTH)
		sub(/\(/, ".", name)
		sub(/\)/, "", name)
		if (name in page)
			word = "<a href=\"" name ".html\">" word "</a>"
		done = done substr(plain, 1, RSTART - 1) word
		plain = substr(plain, RSTART + RLENGTH)
	}
	return done plain
}
