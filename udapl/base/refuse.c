/* SPDX-License-Identifier: BSD-2-Clause */
/* The line of the log that a refused call leaves, and what its result means in words. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "refuse.h"
#include "status.h"

/* By type and subtype; a subtype of 0 stands for all that are not listed. The first one counts. */
static const struct reason {
	DAT_RETURN_TYPE type;
	DAT_RETURN_SUBTYPE subtype;
	const char *text;
} reasons[] = {
#define STATE(subtype, text)                                                                       \
	{                                                                                          \
		DAT_INVALID_STATE, DAT_INVALID_STATE_##subtype, text                               \
	}
#define ANY(type, text)                                                                            \
	{                                                                                          \
		DAT_##type, DAT_NO_SUBTYPE, text                                                   \
	}
	STATE(EP_UNCONNECTED, "the endpoint is unconnected"),
	STATE(EP_ACTCONNPENDING, "the endpoint is connecting"),
	STATE(EP_PASSCONNPENDING, "a connection request waits with the endpoint"),
	STATE(EP_TENTCONNPENDING, "the endpoint was made for a request, which is not accepted"),
	STATE(EP_CONNECTED, "the endpoint is connected"),
	STATE(EP_DISCPENDING, "the endpoint is being disconnected"),
	STATE(EP_DISCONNECTED, "the endpoint is disconnected"),
	STATE(EP_COMPLPENDING, "the endpoint is accepted, and not connected yet"),
	STATE(EP_RESERVED, "the endpoint belongs to a reserved service point"),
	STATE(EP_NOTREADY, "the endpoint lacks a zone, an EVD, or RDMA reads"),
	STATE(EVD_WAITER, "a thread waits on the EVD"),
	STATE(EVD_UNWAITABLE, "the EVD is unwaitable"),
	STATE(EVD_CONFIG_NOTIFY, "an endpoint of the EVD is UNSIGNALLED, so there is no threshold"),
	STATE(EVD_CONFIG_SOLICITED,
	      "an endpoint of the EVD is SOLICITED, so there is no threshold"),
	STATE(IA_IN_USE, "objects of the IA exist"),
	STATE(EVD_IN_USE, "an endpoint, a service point or an IA uses the EVD"),
	STATE(CNO_IN_USE, "an EVD or a thread uses the CNO"),
	STATE(PZ_IN_USE, "an endpoint, a region, a window or a queue uses the zone"),
	STATE(LMR_IN_USE, "a window is bound to the region"),
	STATE(SRQ_IN_USE, "an endpoint uses the queue"),
	STATE(LMR_FREE, "the source region is being freed"),
	STATE(SRQ_ERROR, "the queue is in error"),
	ANY(INVALID_STATE, "the object is not in a state for that"),
	ANY(INVALID_HANDLE,
	    "no live object of that kind and IA, or one without the flag for its role"),
	{ DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY,
	  "as many are outstanding as may be, or the host is out of memory" },
	ANY(INSUFFICIENT_RESOURCES, "the device has no more, or none like that"),
	ANY(MODEL_NOT_SUPPORTED, "the device or the provider cannot do that"),
	ANY(CONN_QUAL_IN_USE, "something listens there"),
	ANY(CONN_QUAL_UNAVAILABLE, "no port is free"),
	ANY(PROTECTION_VIOLATION, "the objects are not in the same protection zone"),
	ANY(PRIVILEGES_VIOLATION, "the memory lacks that privilege"),
	ANY(INVALID_ADDRESS, "this is not the address of a host that can be reached"),
	ANY(PROVIDER_NOT_FOUND, "the library does not serve that name"),
	ANY(QUEUE_FULL, "as many events are queued as may be"),
	ANY(ABORT, "the IA is closed, or the EVD freed"),
	ANY(INTERRUPTED_CALL, "a signal handler ran"),
	ANY(INTERNAL_ERROR, "the device failed"),
#undef ANY
#undef STATE
};

/* Returns what a result means in words. */
static const char *reason_of(DAT_RETURN ret)
{
	for (unsigned i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].type == DAT_GET_TYPE(ret) &&
		    (reasons[i].subtype == DAT_GET_SUBTYPE(ret) ||
		     reasons[i].subtype == DAT_NO_SUBTYPE))
			return reasons[i].text;
	return "it failed";
}

/* Returns the number of the argument that a result is about; 0 if it names none. */
static unsigned argument_of(DAT_RETURN ret)
{
	if (DAT_GET_TYPE(ret) != DAT_INVALID_PARAMETER || DAT_GET_SUBTYPE(ret) < DAT_INVALID_ARG1 ||
	    DAT_GET_SUBTYPE(ret) > DAT_INVALID_ARG10)
		return 0;
	return 1 + DAT_GET_SUBTYPE(ret) - DAT_INVALID_ARG1;
}

/*
 * Returns where argument @n, counted from 1, is in the text of all, and its length; "" if it is not
 * there.
 */
static const char *argument_in(const char *arguments, unsigned n, int *length)
{
	while (--n && *arguments) {
		arguments += strcspn(arguments, ",");
		arguments += strspn(arguments, ", ");
	}
	*length = (int)strcspn(arguments, ",");
	return arguments;
}

/* Returns what is wrong with an argument, by the text of its value. */
static const char *fault_of(const char *argument, int length)
{
	static const char null[] = "(nil)";
	const int end = length - (int)strlen(null);

	return end > 0 && !strncmp(argument + end, null, strlen(null)) ? "is null"
								       : "is not possible";
}

static void line_write(DAT_RETURN ret, unsigned kinds, const char *call, const char *arguments)
{
	const char *type = "?", *subtype = "?", *argument;
	const unsigned n = argument_of(ret);
	int length = 0;

	(void)dat_strerror(ret, &type, &subtype);
	argument = n ? argument_in(arguments, n, &length) : "";
	if (length)
		log_to(kinds, "%s: %s %s: %.*s %s (%s)", call, type, subtype, length, argument,
		       fault_of(argument, length), arguments);
	else
		log_to(kinds, "%s: %s%s%s: %s (%s)", call, type, *subtype ? " " : "", subtype,
		       n ? "an argument is not possible" : reason_of(ret), arguments);
}

DAT_RETURN refused(DAT_RETURN ret, unsigned kinds, const char *call, const char *format, ...)
{
	char arguments[320];
	va_list args;

	if (!log_wants(kinds))
		return ret;
	va_start(args, format);
	vsnprintf(arguments, sizeof(arguments), format, args);
	va_end(args);
	line_write(ret, kinds, call, arguments);
	return ret;
}
