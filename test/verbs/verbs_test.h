/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of the verbs transport share: a device, a queue pair, and its end. */
#ifndef VERBS_TEST_H
#define VERBS_TEST_H

#include <errno.h>
#include <string.h>

#include "../../udapl/verbs/verbs.h"
#include "../fake_verbs/fake_verbs.h"
#include "../fake_verbs/upcalls.h"
#include "../harness/editions.h"
#include "../harness/run.h"

/*
 * Each case holds "ia->lock" from its set-up on, and moves the clock itself. Its last step is
 * rig_close or dev_close, which prove that nothing is left.
 */
void verbs_begin(void); /* a fixture */

/* The device under test, on "fv0 1", and what a queue pair needs. */
struct tp_dev *dev_open(void);
void dev_close(struct tp_dev *dev);

struct rig {
	struct tp_dev *dev;
	struct tp_pd *pd;
	struct tp_cq *send_cq, *recv_cq; /* of up_evd(0) and up_evd(1) */
	struct tp_qp *qp;		 /* of up_ep(0) */
};
void rig_open(struct rig *rig);
/* Destroys what is not NULL; everything must be gone then, orphans included. */
void rig_close(struct rig *rig);
/* Another queue pair of @rig, of up_ep(@n). */
struct tp_qp *rig_qp(struct rig *rig, unsigned n);
/* tp_qp_destroy, which is called without ia->lock. */
void rig_qp_destroy(struct tp_qp *qp);
/* Has the service thread's work done, as long as there is any. */
void rig_progress(struct rig *rig);

/* The next upcall is this one, and it is about @about. Returns it. */
#define upcall_is(kind, about) upcall_check(__FILE__, __LINE__, kind, about)
struct up_record upcall_check(const char *file, int line, enum up_kind kind, const void *about);
#define no_upcall() upcall_check(__FILE__, __LINE__, UP_NONE, NULL)

#endif
