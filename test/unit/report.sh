#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# test/bench/report, with results made here: what the page has of them, of parts that were not
# measured and of malformed files. Prints TAP.

# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
top=${top_srcdir:-.}
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/page"
cp "$top"/doc/*.in "$tmp/page"

# ---- results

# tabs: standard input, with a tab for each |
tabs() { tr '|' '\t'; }

# part NAME: writes its file, with tables from standard input
part() {
	{
		tabs <<-END
			part|$1
			fact|date|${day:-2026-01-02} 03:04
			fact|machine|${machine:-a machine}
			fact|place|a place
			fact|software|libraries
			fact|load|0.25
		END
		tabs
		echo end
	} >"$tmp/results/$1.tsv"
}

instructions() {
	part "instructions-$1" <<-END
		table|calls|call|ours|raw|added|own|most|what|verdict
		row|post_send|162|100|62|50|67|added|ok
		row|post_send_two_suppressed|200|100|100|60|99|added|over
		row|post_rdma_write_two|181|100|81|60|95|added|ok
		row|post_send, thread-safe|175|100|75|60|107|added|ok
		row|srq_post_recv|155|100|55|50|60|added|ok
		row|register|348|100|248|348|391|own|ok
		row|dequeue|79|304|-225|70|81|added|ok
		row|unheard_of|3|2|1|1|1|own|ok
		table|thread|call|ours
		row|to look|2000
	END
}

# clock PART TABLE RATIO
clock() {
	columns='protocol|raw us|ours us|ratio|at most|lowest|median|highest|switches|us of it'
	part "$1" <<-END
		table|$2|$columns|processor
		row|ping & pong|10.00|10.10|$3|1.03|0.99|1.01|1.30|0.00|0.00|1.02
		row|  one more|100.00|310.00|3.10|0.00|3.00|3.10|3.20|1.00|2.00|2.90
		table|$2, in turns of 5 ms|$columns|processor
		row|ping & pong|10.00|10.10|1.01|1.03|0.99|1.01|1.30|0.00|0.00|1.02
		table|four threads to one|raw|ours
		row|1.90|1.80
	END
}

# all: every part
all() {
	rm -rf "$tmp/results"
	mkdir "$tmp/results"
	for over in verbs tcp; do
		instructions $over
		part "calls-$over" <<-END
			table|system calls|operation|side|calls
			row|a wait|raw|3.00
			row|a wait|ours|4.00
			row|a wait|provider|0.50
		END
		part "endpoints-$over" <<-END
			table|endpoints|pairs|side|connect|message|disconnect|free|KiB
			row|10|raw|57.61|47.90|18.01|6.97|10.1
			row|10|ours|142.26|68.68|55.10|11.94|20.2
		END
		part "connects-$over" <<-END
			table|connects|processes|raw ms|ours ms
			row|4|9.99|10.99
		END
	done
	clock time-verbs 'one processor' 1.01
	clock time-tcp "libfabric's tcp" 1.05
	clock threads-verbs 'all processors' 1.00
	part scale <<-END
		table|scale|call|10|100
		row|register|0.130|-
		table|counted|call|instructions
		row|register|1104
	END
	for over in verbs tcp; do
		part "sizes-$over" <<-END
			table|sizes|bytes|raw us|ours us|raw GB/s|ours GB/s
			row|1|10.00|12.00|0.000100|0.000050
			row|4194304|4000.00|4800.00|1.000000|1.900000
		END
	done
	columns='bytes|raw us|ours us|raw GB/s|ours GB/s|raw GB/s of reads|ours GB/s of reads'
	part peers-verbs <<-END
		table|sizes|$columns
		row|1|60.00|66.00|0.000200|0.000100|0.000300|0.000600
	END
	columns='bytes|socket us|raw us|ours us|ratio us|socket GB/s|raw GB/s|ours GB/s|ratio GB/s'
	part peers-tcp <<-END
		table|sizes|$columns
		row|1|5.00|10.00|12.00|2.51|0.000200|0.000100|0.000050|0.26
		row|4|5.00|10.00|10.00|1.99|0.000200|0.000100|0.000050|0.24
		table|asleep|bytes|socket us|raw us|ours us|socket GB/s|raw GB/s|ours GB/s
		row|1|20.00|10.00|12.00|0.000100|0.000200|0.000100
	END
}

# ---- the report

# render [PAGE...]: prints its status, and what it says without the folder's name
render() {
	"$top/test/bench/report" "$tmp/results" "$tmp/page" "${@:-performance}" >"$tmp/out" 2>&1
	echo "$?$(sed "s,$tmp/results/,,; s/^/ /" "$tmp/out")"
}

# page TEXT...: how many lines of the page have each of the texts
page() {
	for text; do
		grep -cF -e "$text" "$tmp/page/performance.md"
	done | tr '\n' ' '
}

echo 1..47
all
same 'all parts are rendered' "$(render)" 0
same 'nothing is left to measure, and no directive stands there' \
	"$(page 'ot measured:' '@')" '0 0 '
same 'a post has what it adds and its budget' \
	"$(page '| plain | 62 (67) |  | 55 (60) |' '| two segments |  | 81 (95) |')" '2 2 '
same 'a way of calling that exceeds its budget is bold' \
	"$(page '| two segments, suppressed | **100 (99)** |')" '2 '
same 'thread-safe posts have rows of their own' "$(page '| plain, thread-safe | 75 (107) |')" '2 '
same 'kinds of posts that were not measured have no column' \
	"$(page '| a post | send | RDMA write | of a shared queue |')" '2 '
same 'another call has all its figures, and which of them the budget is for' \
	"$(page '| dat_evd_dequeue, a transfer | 304 | 79 | -225 | 70 | 81 added |')" '2 '
same 'a call that the report does not know has its own name' \
	"$(page '| unheard_of | 2 | 3 | 1 | 1 | 1 own |')" '2 '
same 'the provider'"'"'s thread has a table' "$(page '| to look | 2000 |')" '1 '
same 'a protocol has its times and ratios, and is bold above the wanted one' \
	"$(page '| ping & pong | 10.0 | 10.1 | **1.05** | 1.03 | 0.99–1.30 | 1.02 | 0.00 |')" \
	'1 '
same 'one that belongs to the row before is indented, and needs no wanted ratio' \
	"$(page '| - one more | 100 | 310 | 3.10 |  | 3.00–3.20 | 2.90 | 1.00 | 2.00 |')" '3 '
same 'system calls stand side by side' "$(page '| a wait | 3.00 | 4.00 | 0.50 |')" '2 '
same 'endpoints, too' \
	"$(page '| 10 | 142, raw 57.6 | 68.7, raw 47.9 | 55.1, raw 18.0 | 11.9, raw 6.97 | 20')" \
	'2 '
same 'a number of objects that was not tried has no figure' \
	"$(page '| register | 0.130 |  |')" '1 '
same 'each part tells when it was measured, and how busy the machine was' \
	"$(page '| 2026-01-02 03:04 | a place | 0.25 |')" '12 '
same 'the machine is told once' "$(page 'a machine.')$(page 'on one day')" '1 0 '
svg=$tmp/page/performance.svg
same 'the picture has a bar for each protocol, and escapes its name' \
	"$(grep -c 'fill="#4477aa"' "$svg") $(grep -c 'fill="#cc8844"' "$svg") \
$(grep -c '>ping &amp; pong<' "$svg")" '2 2 2'
same 'a bar is cut where the picture ends' \
	"$(grep -c 'width="400.0" height="12"' "$svg") $(grep -c '>3.10<' "$svg")" '2 2'

# ---- parts that are missing

rm "$tmp/results/instructions-verbs.tsv" "$tmp/results/time-tcp.tsv"
same 'results may be missing' "$(render)" 0
# shellcheck disable=SC2016 # they are no commands
same 'then the page has the command in their place' \
	"$(page '| not measured: `make bench-instructions` |' \
		'*Not measured: `make bench-instructions`' \
		'*Not measured: `make bench-tcp-clock`')" '1 2 2 '
same 'and nothing of the earlier page' \
	"$(page '| plain | 62 (67) |  | 55 (60) |') $(grep -c 'fill="#cc8844"' "$svg")" '1  0'
all
day=2026-01-03 machine='another machine'
clock time-tcp "libfabric's tcp" 1.05
unset day machine
same 'parts of several days and machines' "$(render)" 0
same 'are told from each other' \
	"$(page 'not measured on one day' '- time over tcp: another machine.' \
		'| 2026-01-03 03:04 |')" '1 1 1 '
rm "$tmp/results"/*.tsv
part scale <<-END
	table|scale|call|10
	row|register|0.130
	table|counted|call|instructions
	row|register|1104
END
# shellcheck disable=SC2016 # it is no command
same 'without any times the picture says so' \
	"$(render) $(page '*Not measured: `make bench-clock` and') \
$(grep -c '>Not measured<' "$svg")" '0 1  1'
rm "$tmp/results/scale.tsv"
same 'without any results there is no report' "$(render) $(page '| register | 0.130 |')" \
	"1 report: no results of performance in $tmp/results 1 "

# ---- sizes, which have a page of their own

svg=$tmp/page/performance-sizes.svg
# lines CLASS: of the curves
lines() { grep -o "^<path class=\"$1\" d=\"M[0-9][^H]*L" "$svg" | wc -l; }
# sizes TEXT...: how many lines of that page have each of the texts
sizes() {
	for text; do
		grep -cF -e "$text" "$tmp/page/performance-sizes.md"
	done | tr '\n' ' '
}
all
rm "$tmp/results/sizes-tcp.tsv" "$tmp/results"/peers-*.tsv
# shellcheck disable=SC2016 # it is no command
same 'of two transports one may have been measured' \
	"$(render performance performance-sizes) $(lines raw) $(lines ours) \
$(grep -c '>not measured: make bench-tcp-sizes<' "$svg") \
$(sizes '*Not measured: `make bench-tcp-sizes`')" '0 2 2 1 1 '
all
same 'each part has a curve of each side for the time, and one for the rate' \
	"$(render performance-sizes) $(lines raw) $(lines ours) $(lines socket)" '0 6 6 2'
same 'and a row for each size, with ratios' \
	"$(sizes '| 1 | 10.0 | 12.0 | 1.20 | 0.10 | 0.05 | 0.50 |' \
		'| 4194304 | 4000 | 4800 | 1.20 | 1000 | 1900 | 1.90 |')" '2 2 '
same 'other programs have columns of their own, and the ratio is that of the turns' \
	"$(sizes '| bytes | message, socket us | libfabric | dtest | ratio | writes, socket MB/s' \
		'| 1 | 5.00 | 10.0 | 12.0 | 2.51 | 0.20 | 0.10 | 0.05 | 0.26 |')" '2 1 '
same 'reads have columns where they were measured' \
	"$(sizes '| reads, perftest MB/s | dtest | ratio |' \
		'| 1 | 60.0 | 66.0 | 1.10 | 0.20 | 0.10 | 0.50 | 0.30 | 0.60 | 2.00 |')" '1 1 '
same 'or that of ours to the better one' \
	"$(sizes '| 1 | 20.0 | 10.0 | 12.0 | 1.20 | 0.10 | 0.20 | 0.10 | 0.50 |')" '1 '
same 'times are by powers of ten, and rates from 0 to what is more than the highest' \
	"$(grep -c '>10000<' "$svg") $(grep -c '>100000<' "$svg") $(grep -c '>2<' "$svg")" '2 0 2'
same 'the ends of a curve are where its figures are' \
	"$(grep -c 'class="ours" d="M55.0 316.7L405.0 108.5' "$svg")" 1
rm "$tmp/results"/sizes-*.tsv "$tmp/results"/peers-*.tsv
cp "$svg" "$tmp/before"
same 'a page without results stays as it is' \
	"$(render performance performance-sizes) $(cmp "$svg" "$tmp/before" 2>&1)" \
	"0 report: no results of performance-sizes in $tmp/results "
svg=$tmp/page/performance.svg

# ---- results that are malformed: nothing is written

# refused NAME PART WHY SED-COMMAND: the results of PART are spoilt by the command
refused() {
	all
	render >"$tmp/first"
	cp "$svg" "$tmp/page/performance.md" "$tmp"
	sed -i "$4" "$tmp/results/$2.tsv"
	got=$(render)
	cmp -s "$svg" "$tmp/performance.svg" || got="$got; wrote a picture"
	cmp -s "$tmp/page/performance.md" "$tmp/performance.md" || got="$got; wrote a page"
	same "$1" "$got" "1 report: $2.tsv$3"
}
# shellcheck disable=SC2016 # a command of sed
refused 'a file that ends too early' scale ':10: incomplete: its last line is not "end"' '$d'
refused 'a row with too few cells' scale ':8: 2 cells, not 3' 's/^\(row.*\)\t-/\1/'
refused 'a word in place of a number' time-verbs \
	': table one processor, row 1, ratio: "fast" is no number' 's/1\.01\t1\.03/fast\t1.03/'
refused 'results of another part' time-verbs ':1: not the results of time-verbs' \
	'1s/time/calls/'
refused 'a line of another kind' scale ':7: neither fact, table, row nor end' '7s/table/tabel/'
refused 'an empty file' scale ':0: incomplete: its last line is not "end"' d
refused 'a fact that is missing' scale ':10: no fact date' /date/d
refused 'a table that is missing' scale ': no table scale' 's/^table\tscale/table\tother/'
refused 'a column that is missing' instructions-tcp ': table calls: no column added' \
	's/\tadded\town/\tadd\town/'
refused 'rows that do not come in pairs' endpoints-tcp ': rows of raw and ours do not alternate' \
	's/ours/raw/'
all
echo '@nothing scale' >"$tmp/page/performance.in"
same 'an unknown directive of the template' "$(render)" \
	'1 report: the template has an unknown line @nothing scale'
echo '@rows nothing' >"$tmp/page/performance.in"
same 'an unknown part in the template' "$(render)" \
	'1 report: the template wants @rows nothing, which is no part'
"$top/test/bench/report" >"$tmp/out" 2>&1
same 'wrong usage is told' "$? $(grep -c 'report RESULTS FOLDER PAGE' "$tmp/out")" '2 1'
