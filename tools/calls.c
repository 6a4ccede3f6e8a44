/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls whose parameters differ between the editions of DAT, and the names of results. */
#include "tools.h"

#include <stdio.h>
#include <string.h>

#if DAT_EDITION == 2
#define IN_VIRTUAL_ADDRESSES , DAT_VA_TYPE_VA
#define WITHOUT_DATA	     , 0, NULL
#else
#define IN_VIRTUAL_ADDRESSES
#define WITHOUT_DATA
#endif

DAT_RETURN tool_lmr_create(DAT_IA_HANDLE ia, void *at, DAT_VLEN length, DAT_PZ_HANDLE pz,
			   DAT_MEM_PRIV_FLAGS privileges, DAT_LMR_HANDLE *lmr,
			   DAT_LMR_CONTEXT *lmr_context, DAT_RMR_CONTEXT *rmr_context)
{
	DAT_REGION_DESCRIPTION region = { .for_va = at };
	DAT_VADDR registered_address;
	DAT_VLEN registered_length;

	return dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, length, pz,
			      privileges IN_VIRTUAL_ADDRESSES, lmr, lmr_context, rmr_context,
			      &registered_length, &registered_address);
}

DAT_RETURN tool_cr_reject(DAT_CR_HANDLE cr)
{
	return dat_cr_reject(cr WITHOUT_DATA);
}

bool tool_question_answer(DAT_CR_HANDLE cr)
{
	static const char question[] = TOOL_QUESTION;
	DAT_CR_PARAM param;

	/* a transport may pad private data */
	if (dat_cr_query(cr, DAT_CR_FIELD_ALL, &param) != DAT_SUCCESS || !param.private_data ||
	    param.private_data_size < (DAT_COUNT)sizeof(question) ||
	    memcmp(param.private_data, question, sizeof(question)) != 0)
		return false;
	(void)tool_cr_reject(cr);
	return true;
}

const char *tool_return_text(DAT_RETURN ret, char *text, size_t size)
{
	const char *major = "unknown error", *minor = "";

	(void)dat_strerror(ret, &major, &minor); /* which names what it does not know, too */
	(void)snprintf(text, size, "%s%s%s", major, *minor ? " " : "", minor);
	return text;
}
