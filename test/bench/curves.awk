# SPDX-License-Identifier: BSD-2-Clause
# The picture of doc/performance-sizes.md, for report.awk: for each transport the time of a message
# and the rate of writes by size. Logarithmic, but for the rate.

function curves(    p, y) {
	PANEL_WIDTH = 350
	PANEL_HEIGHT = 240
	curves_begin(parts * 70 + measured * (PANEL_HEIGHT + 20))
	y = 75
	for (p = 1; p <= parts; p++) {
		svg_text(10, y - 22, " class=\"bold\"", curves_title(part_name[p]))
		if (part_name[p] in loaded) {
			panel(part_name[p], 55, y, "us", "microseconds of a message, by bytes", 1)
			panel(part_name[p], 475, y, "GB/s", "GB/s of RDMA writes, by bytes", 0)
			y += PANEL_HEIGHT + 20
		} else {
			svg_text(10, y - 2, "", "not measured: make " command[part_name[p]])
		}
		y += 60
	}
	print "</svg>" >plot
	close(plot)
}

function curves_title(part) {
	if (part == "sizes-verbs")
		return "libdaplcma, and raw verbs"
	if (part == "peers-verbs")
		return "dtest over libdaplcma, and perftest over raw verbs; both sleep"
	if (part == "peers-tcp")
		return "dtest over libdaplofi, a program of raw libfabric, and one of sockets"
	return "libdaplofi over tcp, and raw libfabric"
}

# Colours are those of light or dark pages.
function curves_begin(tall) {
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"850\" height=\"%d\"" \
		" viewBox=\"0 0 850 %d\" font-family=\"sans-serif\" font-size=\"12\">\n",
		tall, tall >plot
	print "<!-- SPDX-License-Identifier: BSD-2-Clause; written by test/bench/report -->" >plot
	print "<title>Time of a message and rate of writes by size, ours and raw</title>" >plot
	print "<style>" >plot
	curves_colors("", "#1f2328", "#ffffff", "#d8dde2", "#8a939c", "#b5502f", "#2f6db5")
	print "@media (prefers-color-scheme: dark) {" >plot
	curves_colors("\t", "#d9dee3", "#14181d", "#323a42", "#8a939c", "#e58a5e", "#6ea8e8")
	print "}" >plot
	print ".bold { font-weight: bold; }" >plot
	print "path { fill: none; stroke-width: 2; }" >plot
	print ".grid { stroke-width: 1; }" >plot
	print ".raw { stroke-width: 5; }" >plot
	print ".socket { stroke-dasharray: 6 3; }" >plot
	print "</style>" >plot
	print "<rect class=\"back\" width=\"100%\" height=\"100%\"/>" >plot
	print "<path class=\"raw\" d=\"M10 18H50\"/>" >plot
	svg_text(58, 22, "", "raw calls")
	print "<path class=\"ours\" d=\"M140 18H180\"/>" >plot
	svg_text(188, 22, "", "DAT")
	print "<path class=\"socket\" d=\"M230 18H270\"/>" >plot
	svg_text(278, 22, "", "a socket of TCP")
}

function curves_colors(indent, text, back, grid, raw, ours, socket) {
	printf "%stext { fill: %s; }\n%s.back { fill: %s; }\n", indent, text, indent, back >plot
	printf "%s.grid { stroke: %s; }\n", indent, grid >plot
	printf "%s.raw { stroke: %s; }\n%s.ours { stroke: %s; }\n", indent, raw, indent, ours >plot
	printf "%s.socket { stroke: %s; }\n", indent, socket >plot
}

# Bytes as 1, 4, 1K, 4M.
function short_size(bytes) {
	return bytes < 1024 ? bytes : bytes < 1048576 ? bytes / 1024 "K" : bytes / 1048576 "M"
}

# One diagram, whose upper left corner is at @x, @y.
function panel(part, x, y, unit, title, logarithmic,    rows, row, n, s, at) {
	rows = need(part, "sizes")
	n = split(sides[part], side, " ")
	svg_text(x, y - 2, "", title)
	scale_choose(part, rows, unit, logarithmic)
	scale_draw(x, y, logarithmic)
	for (row = 1; row <= rows; row++) {
		at = panel_x(x, row, rows)
		printf "<path class=\"grid\" d=\"M%.1f %dv%d\"/>\n", at, y + 8, PANEL_HEIGHT >plot
		svg_text(at, y + PANEL_HEIGHT + 24, " text-anchor=\"middle\"",
			short_size(number(part, "sizes", row, "bytes")))
	}
	for (s = 1; s <= n; s++) {
		printf "<path class=\"%s\" d=\"", side[s] >plot
		for (row = 1; row <= rows; row++)
			printf "%s%.1f %.1f", row == 1 ? "M" : "L", panel_x(x, row, rows),
				panel_y(y, number(part, "sizes", row, side[s] " " unit),
					logarithmic) >plot
		print "\"/>" >plot
	}
}

function panel_x(x, row, rows) {
	return x + (rows > 1 ? (row - 1) * PANEL_WIDTH / (rows - 1) : 0)
}

function panel_y(y, value, logarithmic) {
	if (logarithmic)
		value = value > 0 ? log(value) / log(10) : lowest
	return y + 8 + PANEL_HEIGHT - (value - lowest) * PANEL_HEIGHT / (highest - lowest)
}

# Sets lowest and highest, powers of ten if logarithmic, and step.
function scale_choose(part, rows, unit, logarithmic,    row, n, s, value, least, most) {
	n = split(sides[part], side, " ")
	for (row = 1; row <= rows; row++)
		for (s = 1; s <= n; s++) {
			value = number(part, "sizes", row, side[s] " " unit)
			if (value > most)
				most = value
			if (least == "" || value < least)
				least = value
		}
	lowest = 0
	if (logarithmic) {
		step = 1
		while (10 ^ lowest > least && lowest > -3)
			lowest--
		while (10 ^ (lowest + 1) <= least)
			lowest++
		highest = lowest + 1
		while (10 ^ highest < most)
			highest++
		return
	}
	step = 0.001
	while (step * 6 < most)
		step *= step ~ /^[0.]*2/ ? 2.5 : 2
	for (highest = step; highest < most; highest += step)
		;
}

function scale_draw(x, y, logarithmic,    value, at) {
	for (value = lowest; value <= highest + step / 2; value += step) {
		at = panel_y(y, logarithmic ? 10 ^ value : value, logarithmic)
		printf "<path class=\"grid\" d=\"M%d %.1fh%d\"/>\n", x, at, PANEL_WIDTH >plot
		svg_text(x - 6, at + 4, " text-anchor=\"end\"",
			(logarithmic ? 10 ^ value : value) "")
	}
}
