# SPDX-License-Identifier: BSD-2-Clause
# The report of the benchmarks. The input is the template, whose lines are copied but for those that
# begin with @:
#
#	@parts			what was measured, when, where, on what machine
#	@plot			the picture, which shows ratios by the clock
#	@curves			the picture of times and rates by size
#	@posts PART		instructions that posts add: a row for each way of calling
#	@calls PART		instructions of all other calls
#	@rows PART TABLE	a table as it is
#	@clock PART TABLE	times, and their ratios
#	@endpoints PART		what a pair of endpoints costs among others
#	@syscalls PART		system calls per operation
#	@sizes PART [TABLE]	times and rates by size, of the table "sizes", or this one
#
# results: the folder of the results; plot: the file of the picture; page: performance, or
# performance-sizes, whose picture is curves.awk's. Exit status: 3 if no part of the page was
# measured.

BEGIN {
	FS = "\t"
	if (page == "performance-sizes")
		parts_of_sizes()
	else
		parts_of_all_else()
	calls_define()
	for (p = 1; p <= parts; p++)
		load(part_name[p])
	if (!measured) {
		print "report: no results of " page " in " results >"/dev/stderr"
		exit 3
	}
	if (page == "performance-sizes")
		curves()
	else
		picture()
}

# A line of the template. Tables are made of words that tabs separate; directives have blanks.
/^@/ {
	n = split($0, word, " ")
	name = word[2]
	rest = n > 2 ? substr($0, length(word[1]) + length(name) + 3) : ""
	if (word[1] == "@parts")
		show_parts()
	else if (word[1] == "@plot")
		show_plot()
	else if (word[1] == "@curves")
		print "![Time of a message and rate of writes by size](performance-sizes.svg)"
	else if (!(name in command))
		fail("the template wants " $0 ", which is no part")
	else if (!(name in loaded))
		print "*Not measured: `make " command[name] "` does.*"
	else if (word[1] == "@posts")
		show_posts(name)
	else if (word[1] == "@calls")
		show_calls(name)
	else if (word[1] == "@rows")
		show_rows(name, rest)
	else if (word[1] == "@clock")
		show_clock(name, rest)
	else if (word[1] == "@endpoints")
		show_endpoints(name)
	else if (word[1] == "@syscalls")
		show_syscalls(name)
	else if (word[1] == "@sizes")
		show_sizes(name, rest == "" ? "sizes" : rest)
	else
		fail("the template has an unknown line " $0)
	next
}
{ print }

function fail(why) {
	print "report: " why >"/dev/stderr"
	exit 1
}

# ---- the parts

function parts_of_all_else() {
	parts_define("instructions-verbs", "instructions over verbs", "bench-instructions")
	parts_define("time-verbs", "time over verbs", "bench-clock")
	parts_define("threads-verbs", "threads over verbs", "bench-clock")
	parts_define("calls-verbs", "system calls over verbs", "bench-clock")
	parts_define("endpoints-verbs", "many endpoints over verbs", "bench-clock")
	parts_define("connects-verbs", "connections of many processes over verbs", "bench-connect")
	parts_define("instructions-tcp", "instructions over tcp", "bench-tcp-instructions")
	parts_define("time-tcp", "time over tcp", "bench-tcp-clock")
	parts_define("calls-tcp", "system calls over tcp", "bench-tcp-clock")
	parts_define("endpoints-tcp", "many endpoints over tcp", "bench-tcp-clock")
	parts_define("connects-tcp", "connections of many processes over tcp", "bench-tcp-connect")
	parts_define("scale", "scale", "bench-scale")
}

function parts_of_sizes() {
	parts_define("sizes-verbs", "sizes over verbs", "bench-sizes")
	parts_define("sizes-tcp", "sizes over tcp", "bench-tcp-sizes")
	parts_define("peers-verbs", "perftest over verbs", "bench-peers")
	side_label["peers-verbs", "raw"] = "perftest"
	side_label["peers-verbs", "ours"] = "dtest"
	parts_define("peers-tcp", "other programs over tcp", "bench-tcp-peers")
	sides["peers-tcp"] = "socket raw ours"
	side_label["peers-tcp", "raw"] = "libfabric"
	side_label["peers-tcp", "ours"] = "dtest"
}

function parts_define(name, what, target) {
	part_name[++parts] = name
	part_what[name] = what
	command[name] = target
	sides[name] = "raw ours"
}

# Of the instructions: what the calls are, in the order of the report. Others come last, with their
# own names.
function calls_define() {
	call_define("dequeue", "dat_evd_dequeue, a transfer")
	call_define("dequeue_srq", "dat_evd_dequeue, a receive of a shared queue")
	call_define("dequeue_bind", "dat_evd_dequeue, a bind")
	call_define("dequeue_software", "dat_evd_dequeue, a software event")
	call_define("dequeue_nothing", "dat_evd_dequeue, nothing is there")
	call_define("wait", "dat_evd_wait, an event is there")
	call_define("wait_cno", "dat_cno_wait, an EVD is ready")
	call_define("bind", "dat_rmr_bind, within the region")
	call_define("bind_elsewhere", "dat_rmr_bind, to another region")
	call_define("bind_emulated", "dat_rmr_bind, which registers the range")
	call_define("register", "dat_lmr_create and dat_lmr_free, 10 regions alive")
	call_define("register_crowded", "dat_lmr_create and dat_lmr_free, 10,000 alive")
	kinds = split("post_send post_rdma_write post_rdma_read post_recv srq_post_recv", kind, " ")
	split("send,RDMA write,RDMA read,receive,of a shared queue", kind_what, ",")
}

function call_define(name, what) {
	call_name[++calls] = name
	call_what[name] = what
}

# ---- reading

function malformed(file, line, why) {
	fail(file ":" line ": " why)
}

# No file: the part was not measured.
function load(part,    file, got, line, text, n, word, table, i, ended) {
	file = results "/" part ".tsv"
	while ((got = (getline text <file)) > 0) {
		n = split(text, word, "\t")
		line++
		if (line == 1 && text != "part\t" part)
			malformed(file, line, "not the results of " part)
		if (ended)
			malformed(file, line, "something follows the end")
		if (word[1] == "fact" && n == 3) {
			fact[part, word[2]] = word[3]
		} else if (word[1] == "table" && n > 2) {
			table = word[2]
			width[part, table] = n - 2
			height[part, table] = 0
			for (i = 3; i <= n; i++) {
				head[part, table, i - 2] = word[i]
				column[part, table, word[i]] = i - 2
			}
		} else if (word[1] == "row" && table != "") {
			if (n - 1 != width[part, table])
				malformed(file, line, n - 1 " cells, not " width[part, table])
			height[part, table]++
			for (i = 2; i <= n; i++)
				cell[part, table, height[part, table], i - 1] = word[i]
		} else if (text == "end") {
			ended = 1
		} else if (line > 1) {
			malformed(file, line, "neither fact, table, row nor end")
		}
	}
	close(file)
	if (got < 0 && !line)
		return
	if (!ended)
		malformed(file, line + 0, "incomplete: its last line is not \"end\"")
	n = split("date machine place software load", word, " ")
	for (i = 1; i <= n; i++)
		if (!((part, word[i]) in fact))
			malformed(file, line, "no fact " word[i])
	loaded[part]
	measured++
}

function need(part, table) {
	if (!((part, table) in height))
		fail(results "/" part ".tsv: no table " table)
	return height[part, table]
}

function get(part, table, row, name) {
	if (!((part, table, name) in column))
		fail(results "/" part ".tsv: table " table ": no column " name)
	return cell[part, table, row, column[part, table, name]]
}

function number(part, table, row, name,    value) {
	value = get(part, table, row, name)
	if (value !~ /^-?[0-9]+(\.[0-9]+)?$/)
		fail(results "/" part ".tsv: table " table ", row " row ", " name ": \"" value \
			"\" is no number")
	return value + 0
}

# ---- text

# Folds a list entry at 100 columns.
function print_folded(text,    n, word, i, line) {
	n = split(text, word, " ")
	line = "-"
	for (i = 1; i <= n; i++) {
		if (length(line) + length(word[i]) >= 100) {
			print line
			line = " "
		}
		line = line " " word[i]
	}
	print line
}

function three_digits(value) {
	return sprintf(value < 10 ? "%.2f" : value < 100 ? "%.1f" : "%.0f", value)
}

# Those that belong to the row before them are indented.
function indented(text) {
	sub(/^ +/, "- ", text)
	return text
}

function if_over(text, over) {
	return over ? "**" text "**" : text
}

# ---- what was measured

# Each value that a fact has, and if there are several of which parts.
function show_fact(name,    p, part, value, n, i, seen, list) {
	for (p = 1; p <= parts; p++) {
		part = part_name[p]
		if (!(part in loaded))
			continue
		value = fact[part, name]
		if (!(value in list))
			seen[++n] = value
		list[value] = list[value] (list[value] == "" ? "" : ", ") part_what[part]
	}
	for (i = 1; i <= n; i++)
		print_folded((n > 1 ? list[seen[i]] ": " : "") seen[i] ".")
}

function show_parts(    p, part, day, days) {
	print "| part | measured, UTC | over | load |"
	print "|---|---|---|---:|"
	for (p = 1; p <= parts; p++) {
		part = part_name[p]
		if (!(part in loaded)) {
			printf "| %s | not measured: `make %s` | | |\n", part_what[part], command[part]
			continue
		}
		printf "| %s | %s | %s | %s |\n", part_what[part], fact[part, "date"],
			fact[part, "place"], fact[part, "load"]
		day = substr(fact[part, "date"], 1, 10)
		if (days != "" && days != day)
			days = "several"
		else
			days = day
	}
	if (days == "several")
		print "\nThe parts were not measured on one day."
	print ""
	show_fact("machine")
	show_fact("software")
}

# ---- instructions

# "added (at most)"
function budget(part, row,    text) {
	text = number(part, "calls", row, "added") " (" number(part, "calls", row, "most") ")"
	return if_over(text, get(part, "calls", row, "verdict") != "ok")
}

function is_post(call) {
	return call ~ /^(srq_)?post_/
}

# The way of a post: "two, suppressed", "plain, thread-safe". Sets post_kind.
function post_way(call,    safe, k) {
	safe = sub(/, thread-safe$/, "", call)
	for (k = 1; k <= kinds; k++)
		if (index(call "_", kind[k] "_") == 1) {
			post_kind = kind[k]
			call = substr(call, length(kind[k]) + 2)
		}
	gsub(/_/, ", ", call)
	sub(/^two/, "two segments", call)
	sub(/^four/, "four segments", call)
	return (call == "" ? "plain" : call) (safe ? ", thread-safe" : "")
}

function show_posts(part,    rows, row, call, way, n, i, k, ways, at, line, there) {
	rows = need(part, "calls")
	for (row = 1; row <= rows; row++) {
		call = get(part, "calls", row, "call")
		if (!is_post(call))
			continue
		way = post_way(call)
		if (!((way) in ways)) {
			ways[way]
			at[++n] = way
		}
		line[way, post_kind] = budget(part, row)
		there[post_kind]
	}
	printf "| a post |"
	for (k = 1; k <= kinds; k++)
		if (kind[k] in there)
			printf " %s |", kind_what[k]
	printf "\n|---|"
	for (k = 1; k <= kinds; k++)
		if (kind[k] in there)
			printf "---:|"
	print ""
	for (i = 1; i <= n; i++) {
		printf "| %s |", at[i]
		for (k = 1; k <= kinds; k++)
			if (kind[k] in there)
				printf " %s |", line[at[i], kind[k]]
		print ""
	}
}

function show_call(part, row, what,    most) {
	most = get(part, "calls", row, "most") " " get(part, "calls", row, "what")
	printf "| %s | %d | %d | %d | %d | %s |\n", what, number(part, "calls", row, "raw"),
		number(part, "calls", row, "ours"), number(part, "calls", row, "added"),
		number(part, "calls", row, "own"),
		if_over(most, get(part, "calls", row, "verdict") != "ok")
}

function show_calls(part,    rows, row, c, call) {
	rows = need(part, "calls")
	print "| call | raw | ours | added | our own | at most |"
	print "|---|---:|---:|---:|---:|---:|"
	for (c = 1; c <= calls; c++)
		for (row = 1; row <= rows; row++)
			if (get(part, "calls", row, "call") == call_name[c])
				show_call(part, row, call_what[call_name[c]])
	for (row = 1; row <= rows; row++) {
		call = get(part, "calls", row, "call")
		if (!is_post(call) && !(call in call_what))
			show_call(part, row, call)
	}
}

# ---- other tables

function show_rows(part, table,    rows, columns, row, i, value) {
	rows = need(part, table)
	columns = width[part, table]
	printf "|"
	for (i = 1; i <= columns; i++)
		printf " %s |", head[part, table, i]
	printf "\n|---|"
	for (i = 2; i <= columns; i++)
		printf "---:|"
	print ""
	for (row = 1; row <= rows; row++) {
		printf "|"
		for (i = 1; i <= columns; i++) {
			value = cell[part, table, row, i]
			if (i > 1 && value != "-")
				number(part, table, row, head[part, table, i])
			printf " %s |", value == "-" ? "" : i == 1 ? indented(value) : value
		}
		print ""
	}
}

function show_clock(part, table,    rows, row, ratio, most) {
	rows = need(part, table)
	print "| protocol | raw, us | ours, us | ratio | wanted | turns | processor | switches |" \
		" us of it |"
	print "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
	for (row = 1; row <= rows; row++) {
		ratio = number(part, table, row, "ratio")
		most = number(part, table, row, "at most")
		printf "| %s | %s | %s | %s | %s | %.2f–%.2f | %.2f | %s | %s |\n",
			indented(get(part, table, row, "protocol")),
			three_digits(number(part, table, row, "raw us")),
			three_digits(number(part, table, row, "ours us")),
			if_over(sprintf("%.2f", ratio), (most > 0 && ratio > most)),
			(most > 0 ? sprintf("%.2f", most) : ""),
			number(part, table, row, "lowest"), number(part, table, row, "highest"),
			number(part, table, row, "processor"),
			three_digits(number(part, table, row, "switches")),
			three_digits(number(part, table, row, "us of it"))
	}
}

function show_endpoints(part,    rows, row, i, step) {
	rows = need(part, "endpoints")
	split("connect message disconnect free KiB", step, " ")
	print "| pairs | connect | message | disconnect | free | memory, KiB |"
	print "|---:|---:|---:|---:|---:|---:|"
	for (row = 1; row < rows; row += 2) {
		if (get(part, "endpoints", row, "side") != "raw" ||
		    get(part, "endpoints", row + 1, "side") != "ours")
			fail(results "/" part ".tsv: rows of raw and ours do not alternate")
		printf "| %s |", get(part, "endpoints", row, "pairs")
		for (i = 1; i <= 5; i++)
			printf " %s, raw %s |",
				three_digits(number(part, "endpoints", row + 1, step[i])),
				three_digits(number(part, "endpoints", row, step[i]))
		print ""
	}
}

function show_syscalls(part,    table, rows, row) {
	table = "system calls"
	rows = need(part, table)
	print "| operation | raw | ours | the provider's thread |"
	print "|---|---:|---:|---:|"
	for (row = 1; row + 2 <= rows; row += 3)
		printf "| %s | %.2f | %.2f | %.2f |\n", get(part, table, row, "operation"),
			number(part, table, row, "calls"), number(part, table, row + 1, "calls"),
			number(part, table, row + 2, "calls")
}

function show_sizes(part, table,    rows, row, reads, columns) {
	rows = need(part, table)
	reads = (part, table, "ours GB/s of reads") in column
	columns = (2 + reads) * (split(sides[part], side, " ") + 1)
	print "| bytes | " sizes_heads(part, "message", "us") " | " \
		sizes_heads(part, "writes", "MB/s") " |" \
		(reads ? " " sizes_heads(part, "reads", "MB/s") " |" : "")
	printf "|---:|"
	while (columns--)
		printf "---:|"
	print ""
	for (row = 1; row <= rows; row++) {
		printf "| %d | %s | %s |", number(part, table, row, "bytes"),
			sizes_cells(part, table, row, "us", 1),
			sizes_cells(part, table, row, "GB/s", 1000)
		if (reads)
			printf " %s |", sizes_cells(part, table, row, "GB/s of reads", 1000)
		print ""
	}
}

# What a side is called.
function side_text(part, name) {
	return (part, name) in side_label ? side_label[part, name] : name
}

function sizes_heads(part, what, unit,    n, i, text) {
	n = split(sides[part], side, " ")
	text = what ", " side_text(part, side[1]) " " unit
	for (i = 2; i <= n; i++)
		text = text " | " side_text(part, side[i])
	return text " | ratio"
}

# Of all sides, times @factor, and the ratio of ours to the better of the others.
function sizes_cells(part, table, row, unit, factor,    n, i, value, best, text) {
	n = split(sides[part], side, " ")
	for (i = 1; i <= n; i++) {
		value = number(part, table, row, side[i] " " unit)
		if (i == 1 || i < n && (unit == "us" ? value < best : value > best))
			best = value
		text = text three_digits(value * factor) " | "
	}
	if ((part, table, "ratio " unit) in column)
		return text sprintf("%.2f", number(part, table, row, "ratio " unit))
	return text (best > 0 ? sprintf("%.2f", value / best) : "")
}

# ---- the picture: a bar for each ratio by the clock, and a line where raw calls are

function show_plot() {
	if (bars) {
		print "![Times of the same protocols, ours to raw](performance.svg)"
		print "\nA red line is the ratio that is wanted; bars are cut at " SHOWN "."
	} else {
		print "*Not measured: `make bench-clock` and `make bench-tcp-clock` do.*"
	}
}

function svg_text(x, y, more, text) {
	gsub(/&/, "\\&amp;", text)
	gsub(/</, "\\&lt;", text)
	printf "<text x=\"%d\" y=\"%d\"%s>%s</text>\n", x, y, more, text >plot
}

# The place of a ratio; what is more than SHOWN is cut.
function svg_x(ratio) {
	return LEFT + (ratio > SHOWN ? SHOWN : ratio) * SCALE
}

function svg_line(x, y1, y2, color) {
	printf "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"%s\"/>\n",
		x, x, y1, y2, color >plot
}

# Adds the rows of a table to the picture.
function bars_of(part, table, title, color,    rows, row, most) {
	if (!(part in loaded))
		return
	rows = need(part, table)
	bar_title[bars + 1] = title
	for (row = 1; row <= rows; row++) {
		bar_text[++bars] = get(part, table, row, "protocol")
		bar_ratio[bars] = number(part, table, row, "ratio")
		most = number(part, table, row, "at most")
		bar_wanted[bars] = most
		bar_color[bars] = color
	}
}

function picture(    i, y, tall, titles, title, end) {
	LEFT = 280
	SHOWN = 2
	SCALE = 200
	bars_of("time-verbs", "one processor", "verbs", "#4477aa")
	bars_of("time-tcp", "libfabric's tcp", "libfabric's tcp", "#cc8844")
	for (i in bar_title)
		titles++
	tall = 70 + 18 * bars + 28 * titles
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"740\" height=\"%d\"" \
		" viewBox=\"0 0 740 %d\" font-family=\"sans-serif\" font-size=\"12\">\n",
		tall, tall >plot
	print "<!-- SPDX-License-Identifier: BSD-2-Clause; written by test/bench/report -->" >plot
	print "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>" >plot
	title = "The same protocols by the clock: time of ours, as a multiple of raw"
	svg_text(10, 20, " font-weight=\"bold\"", bars ? title : "Not measured")
	y = 40
	end = tall - 30
	if (bars) {
		for (i = 0; i <= SHOWN * 2; i++) {
			svg_line(svg_x(i / 2), y, end, i == 2 ? "#000000" : "#dddddd")
			svg_text(svg_x(i / 2), end + 15, " text-anchor=\"middle\"", i / 2 "")
		}
		svg_text(svg_x(1), end + 28, " text-anchor=\"middle\"", "raw")
	}
	for (i = 1; i <= bars; i++) {
		if (i in bar_title) {
			y += 28
			svg_text(10, y - 6, " font-weight=\"bold\"", bar_title[i])
		}
		svg_text(bar_text[i] ~ /^ / ? 30 : 10, y + 13, "", bar_text[i])
		printf "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"12\" fill=\"%s\"/>\n", LEFT,
			y + 3, svg_x(bar_ratio[i]) - LEFT, bar_color[i] >plot
		if (bar_wanted[i] > 0)
			svg_line(svg_x(bar_wanted[i]), y + 1, y + 17, "#cc0000")
		svg_text(svg_x(SHOWN) + 20, y + 13, "", sprintf("%.2f", bar_ratio[i]))
		y += 18
	}
	print "</svg>" >plot
	close(plot)
}
