# SPDX-License-Identifier: BSD-2-Clause
# Reads the list of mutations.
#
#   awk -v name=NAME -f mutants.awk LIST FILE	prints FILE with that mutation; status 1 if it does
#						not apply
#   awk -v root=DIR -f mutants.awk LIST		prints a line for each mutation that does not apply
#						to its file below DIR, or is not complete

FNR == NR && /^mutant / {
	entry = $2
	names[++count] = entry
	times[entry]++
	next
}
FNR == NR && /^(file|tests|breaks|equivalent) / {
	key = $1
	sub(/^[^ ]* /, "")
	values[entry, key] = $0
	next
}
FNR == NR {
	if (/^[- ]/)
		old[entry] = old[entry] substr($0, 2) "\n"
	if (/^[+ ]/)
		new[entry] = new[entry] substr($0, 2) "\n"
	next
}
{ text = text $0 "\n" }

# The place of an entry's old text, which must stand in the file's text exactly once; else 0.
function place(entry, text,    at) {
	at = old[entry] == "" ? 0 : index(text, old[entry])
	return at && !index(substr(text, at + 1), old[entry]) ? at : 0
}

function text_of(path,    line) {
	if (!(path in texts)) {
		texts[path] = ""
		while ((getline line <path) > 0)
			texts[path] = texts[path] line "\n"
		close(path)
	}
	return texts[path]
}

# What is wrong with an entry, or "".
function problem(entry,    file) {
	file = values[entry, "file"]
	if (times[entry] > 1)
		return "stands twice"
	if (values[entry, "breaks"] == "")
		return "does not say what it breaks"
	if (values[entry, "tests"] == "" && values[entry, "equivalent"] == "")
		return "has neither tests nor a reason why no consumer can tell"
	if (old[entry] == new[entry])
		return "changes nothing"
	if (!place(entry, text_of(root "/" file)))
		return "does not apply: its old text does not stand exactly once in " file
	return ""
}

END {
	if (name != "") {
		at = place(name, text)
		if (!at)
			exit 1
		printf "%s", substr(text, 1, at - 1) new[name] substr(text, at + length(old[name]))
	} else {
		for (i = 1; i <= count; i++)
			if (problem(names[i]) != "")
				print names[i], problem(names[i])
	}
}
