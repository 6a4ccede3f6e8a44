/* SPDX-License-Identifier: BSD-2-Clause */
/* The IA params of dat.conf. The transports and datinfo are built with this file. */
#include "params.h"

#include <string.h>

#define BLANKS " \t"

static const struct {
	const char *nothing, *wrong;
	int words; /* at most, before the number */
} kinds[] = {
	[PARAMS_OF_VERBS] = { "field 7 names no interface, address or device",
			      "field 7 must be a name and a number, such as \"ib0 0\"", 1 },
	[PARAMS_OF_OFI] = { "field 7 names no libfabric provider",
			    "field 7 must have one word or two, such as \"tcp eth0\"", 2 },
};

/* Copies the first word of the text. Returns what follows it, or NULL if the word is too long. */
static const char *word_cut(const char *text, char *word, size_t size)
{
	size_t length = strcspn(text, BLANKS);

	if (length >= size)
		return NULL;
	memcpy(word, text, length);
	word[length] = '\0';
	text += length;
	return text + strspn(text, BLANKS);
}

/* Returns whether it is a decimal number, or one that strtoul takes: hexadecimal after 0x. */
static int is_number(const char *text)
{
	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		return text[2] && !text[2 + strspn(text + 2, "0123456789abcdefABCDEF")];
	return *text && !text[strspn(text, "0123456789")];
}

/* Returns whether that is the last word. */
static bool is_last_word(const char *text, const char *word)
{
	const size_t length = strlen(word);

	return !strncmp(text, word, length) && !text[length + strspn(text + length, BLANKS)];
}

const char *params_parse(enum params_kind kind, const char *text, struct params *params)
{
	static const char too_long[] = "field 7 has a word of more than 255 bytes";
	char number[sizeof(params->second)] = "0";

	strcpy(params->second, "0");
	text += strspn(text, BLANKS);
	if (!*text)
		return kinds[kind].nothing;
	text = word_cut(text, params->first, sizeof(params->first));
	if (text && *text)
		text = word_cut(text, params->second, sizeof(params->second));
	if (text && *text && kinds[kind].words == 2)
		text = word_cut(text, number, sizeof(number));
	params->on_demand = text && kind == PARAMS_OF_VERBS && is_last_word(text, "odp");
	if (params->on_demand)
		text = "";
	if (!text)
		return too_long;
	if (kind == PARAMS_OF_OFI && *params->first == '^')
		return "field 7 must begin with the name of a libfabric provider";
	if (*text || !is_number(kinds[kind].words == 2 ? number : params->second))
		return kinds[kind].wrong;
	return NULL;
}

bool params_is_device_like(const char *name)
{
	static const char *const stems[] = { "ib",     "eth",	 "roce",    "rxe",   "siw", "mlx4_",
					     "mlx5_",  "mthca",	 "ehca",    "ipath", "qib", "hfi1_",
					     "cxgb3_", "cxgb4_", "bnxt_re", "irdma" };

	for (size_t i = 0; i < sizeof(stems) / sizeof(*stems); i++) {
		size_t stem = strlen(stems[i]);

		if (!strncmp(name, stems[i], stem) && name[stem] &&
		    name[stem + strspn(name + stem, "0123456789")] == '\0')
			return true;
	}
	return false;
}
