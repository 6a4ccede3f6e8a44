/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions of libfabric: what each mode of registration wants, keys, rights. */
#include <rdma/fi_errno.h>
#include <string.h>

#include "ofi_test.h"

/* Bytes go from here to there, both ways of RMA, and by a message. */
static void transfers_work(struct ofi_rig *rig)
{
	char *memory = rig->memory;

	ck_assert_uint_eq(ofi_write(rig, rig->target.rmr_context), DAT_DTO_SUCCESS);
	ck_assert_int_eq(memcmp(memory, memory + OFI_MEMORY / 2, OFI_MEMORY / 2), 0);
	memset(memory + OFI_MEMORY / 2, 'y', OFI_MEMORY / 2);
	ck_dat(ep_post_rdma_read(rig->active, 1, &rig->segment, (DAT_DTO_COOKIE){ .as_64 = 2 },
				 &rig->target, DAT_COMPLETION_DEFAULT_FLAG));
	ck_assert_uint_eq(ofi_completion(rig), DAT_DTO_SUCCESS);
	ck_assert_int_eq(memcmp(memory, memory + OFI_MEMORY / 2, OFI_MEMORY / 2), 0);
}

/* ---- modes ---- */

/* What a provider may want that one registration of a DAT region can give. */
static const int served[] = {
	0,
	FI_MR_LOCAL,
	FI_MR_VIRT_ADDR,
	FI_MR_ALLOCATED,
	FI_MR_PROV_KEY,
	FI_MR_RMA_EVENT,
	FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
	FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_RMA_EVENT,
};

START_TEST(a_mode_that_the_provider_wants_is_served)
{
	struct ofi_rig rig;

	ff_provider()->mr_mode = served[_i];
	ofi_rig_open(&rig);
	transfers_work(&rig);
	ofi_rig_close(&rig);
}
END_TEST

static TCase *modes(void)
{
	TCase *tcase = tcase_create("modes");

	tcase_add_loop_test(tcase, a_mode_that_the_provider_wants_is_served, 0, COUNT(served));
	return tcase;
}

int main(int argc, char **argv)
{
	modes();
	return run_cases(argc, argv);
}
