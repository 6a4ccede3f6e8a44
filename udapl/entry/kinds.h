/* SPDX-License-Identifier: BSD-2-Clause */
/* How an abrupt close destroys the objects of each kind, beside the table in core/object.h. */
#ifndef UDAPL_KINDS_H
#define UDAPL_KINDS_H

#include "entry.h"

struct close_step {
	DAT_HANDLE_TYPE kind;
	bool locked; /* with ia->lock held */
	void (*close)(struct obj *obj);
};

/* The steps of a close, in the order in which it destroys the objects. The last one is all zero. */
extern const struct close_step close_steps[];

#endif
