/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of the libfabric transport share: the real core over it, on the stand-in. */
#ifndef OFI_TEST_H
#define OFI_TEST_H

#include <check.h>

#include "../../udapl/entry/entry.h"
#include "../fake_fabric/fake_fabric.h"
#include "../harness/core_calls.h"
#include "../harness/process.h"
#include "../harness/run.h"

#define ck_dat(call)		   ck_assert_uint_eq(call, DAT_SUCCESS)
#define ck_dat_is(call, type, sub) ck_assert_uint_eq(call, DAT_ERROR(type, sub))
#define COUNT(array)		   ((int)(sizeof(array) / sizeof((array)[0])))

#define OFI_MEMORY 4096

/*
 * An IA on the scripted provider, and two endpoints of it that can be connected. What was not made
 * is DAT_HANDLE_NULL.
 */
struct ofi_rig {
	DAT_IA_HANDLE ia;
	DAT_EVD_HANDLE async_evd, dto_evd, conn_evd, cr_evd;
	DAT_PZ_HANDLE pz;
	DAT_PZ_HANDLE first_pz; /* nothing is in it; there is one if DAT_TEST_SECOND_ZONE is set */
	DAT_PSP_HANDLE psp;
	DAT_CONN_QUAL port;
	DAT_EP_HANDLE active, passive;
	DAT_LMR_HANDLE lmr; /* of memory */
	DAT_LMR_TRIPLET segment;
	DAT_RMR_TRIPLET target;
	char *memory;
};

/* An empty rig; the IA params are those of the first call in the process. */
void ofi_prepare(struct ofi_rig *rig, const char *params);
/* And dat_ia_open. */
DAT_RETURN ofi_ia_open(struct ofi_rig *rig, const char *params);
/* Registers all of memory, with all privileges. */
DAT_RETURN ofi_lmr_create(struct ofi_rig *rig);
/* The two endpoints. */
DAT_RETURN ofi_eps_create(struct ofi_rig *rig);
/* Each makes what comes next, and stops at the first failure. */
DAT_RETURN ofi_objects_create(struct ofi_rig *rig);
DAT_RETURN ofi_connect(struct ofi_rig *rig);
/* Its parts: dat_ep_connect; to accept the request, and to take the events of both ends. */
DAT_RETURN ofi_connect_begin(struct ofi_rig *rig);
DAT_RETURN ofi_connect_end(struct ofi_rig *rig);
/* All of them: an IA with a connection. */
void ofi_rig_open(struct ofi_rig *rig);
/* Frees what there is. Nothing of libfabric must be left, and no descriptor. */
void ofi_rig_close(struct ofi_rig *rig);
/* In between the caller has the lock of the IA, and is not cancelled, as its service thread. */
void ofi_rig_lock(struct ofi_rig *rig);
void ofi_rig_unlock(struct ofi_rig *rig);

/* Waits for the next event. */
DAT_EVENT ofi_event(DAT_EVD_HANDLE evd);
/* Waits for a completion, and returns its status. */
DAT_DTO_COMPLETION_STATUS ofi_completion(struct ofi_rig *rig);
/* Writes the first @length bytes of memory to its second half, and waits for the end. */
DAT_DTO_COMPLETION_STATUS ofi_write(struct ofi_rig *rig, DAT_RMR_CONTEXT context);

#endif
