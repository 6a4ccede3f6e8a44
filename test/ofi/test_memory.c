/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions of libfabric: what each mode of registration wants, keys, rights, order. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "ofi_test.h"

#define PARAMS "scripted 127.0.0.1"

/* Bytes go from here to there and back. */
static void transfers_work(struct ofi_rig *rig)
{
	const size_t half = OFI_MEMORY / 2;
	char *memory = rig->memory;

	ck_assert_uint_eq(ofi_write(rig, rig->target.rmr_context), DAT_DTO_SUCCESS);
	ck_assert_int_eq(memcmp(memory, memory + half, half), 0);
	memset(memory + half, 'y', half);
	ck_dat(ep_post_rdma_read(rig->active, 1, &rig->segment, (DAT_DTO_COOKIE){ .as_64 = 2 },
				 &rig->target, DAT_COMPLETION_DEFAULT_FLAG));
	ck_assert_uint_eq(ofi_completion(rig), DAT_DTO_SUCCESS);
	ck_assert_int_eq(memcmp(memory, memory + half, half), 0);
}

static void open_is_refused(DAT_RETURN_TYPE type, DAT_RETURN_SUBTYPE subtype, const char *cause)
{
	struct ofi_rig rig;

	ff_log_capture();
	ck_dat_is(ofi_ia_open(&rig, PARAMS), type, subtype);
	ck_assert_msg(strstr(ff_log(), cause) != NULL, "the log: %s", ff_log());
	ck_assert_ptr_eq(rig.ia, DAT_HANDLE_NULL);
	ofi_rig_close(&rig);
}

/* ---- modes ---- */

#define ALL_OF_VERBS (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

/* What a provider may want; the mode in which the domain is opened; whose keys they are. */
static const struct {
	int wanted, mode;
	bool own_keys;
} served[] = {
	{ 0, FI_MR_VIRT_ADDR, true },
	{ FI_MR_LOCAL, FI_MR_LOCAL | FI_MR_VIRT_ADDR, true },
	{ FI_MR_VIRT_ADDR, FI_MR_VIRT_ADDR, true },
	{ FI_MR_ALLOCATED, FI_MR_ALLOCATED | FI_MR_VIRT_ADDR, true },
	{ FI_MR_PROV_KEY, FI_MR_PROV_KEY | FI_MR_VIRT_ADDR, false },
	{ FI_MR_RMA_EVENT, FI_MR_RMA_EVENT | FI_MR_VIRT_ADDR, true },
	{ ALL_OF_VERBS, ALL_OF_VERBS, false },
	{ ALL_OF_VERBS | FI_MR_RMA_EVENT, ALL_OF_VERBS | FI_MR_RMA_EVENT, false },
};

START_TEST(what_the_provider_wants_of_regions_is_given)
{
	const uint32_t key = 0xfeedbeef;
	struct ofi_rig rig;

	ff_provider()->mr_mode = served[_i].wanted;
	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_assert_int_eq(ff_seen().mr_mode, served[_i].mode);
	ff_random(&key, 1);
	ck_dat(ofi_objects_create(&rig));
	ck_assert_uint_eq(rig.target.rmr_context == key, served[_i].own_keys);
	ck_dat(ofi_connect(&rig));
	transfers_work(&rig);
	/* with RMA_EVENT the flag is for regions that have a counter, which ours don't */
	ck_assert_uint_eq(ff_seen().mr_flags, 0);
	ck_assert_uint_eq(ff_calls("fi_mr_bind") + ff_calls("fi_mr_enable"), 0);
	if (served[_i].wanted & FI_MR_LOCAL)
		ck_assert_ptr_nonnull(ff_seen().desc);
	ofi_rig_close(&rig);
}
END_TEST

/* One registration and a context of 32 bits can't give that. */
static const struct {
	int wanted;
	const char *cause;
} refused[] = {
	{ FI_MR_RAW, "FI_MR_RAW" },
	{ FI_MR_ENDPOINT, "FI_MR_ENDPOINT" },
	{ FI_MR_MMU_NOTIFY, "FI_MR_MMU_NOTIFY" },
	{ ALL_OF_VERBS | FI_MR_ENDPOINT, "FI_MR_ENDPOINT" },
};

START_TEST(what_dat_can_not_give_is_refused_at_the_open)
{
	ff_provider()->mr_mode = refused[_i].wanted;
	ff_provider()->basic = false;
	open_is_refused(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE, refused[_i].cause);
}
END_TEST

START_TEST(a_provider_that_knows_the_older_mode_only_is_served_in_that)
{
	struct ofi_rig rig;

	ff_provider()->basic_only = true;
	ofi_rig_open(&rig);
	ck_assert_int_eq(ff_seen().mr_mode, FI_MR_BASIC);
	transfers_work(&rig);
	ofi_rig_close(&rig);
}
END_TEST

/* ---- virtual addresses ---- */

START_TEST(where_virtual_addresses_are_not_taken_the_older_mode_has_them)
{
	struct ofi_rig rig;

	ff_provider()->ignores_virtual = true;
	ofi_rig_open(&rig);
	ck_assert_int_eq(ff_seen().mr_mode, FI_MR_BASIC);
	transfers_work(&rig);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(a_write_that_is_never_placed_is_waited_for_a_moment_only)
{
	struct ofi_rig rig;

	ff_provider()->loses_writes = true;
	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_assert_int_eq(ff_seen().mr_mode, FI_MR_BASIC);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(without_virtual_addresses_in_any_mode_the_open_is_refused)
{
	ff_provider()->ignores_virtual = true;
	ff_provider()->basic = false;
	open_is_refused(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE,
			"counts addresses from the beginning of a region");
}
END_TEST

/* ---- keys ---- */

START_TEST(keys_are_not_in_sequence)
{
	DAT_RMR_CONTEXT contexts[8];
	struct ofi_rig rig;
	unsigned steps = 0;

	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(pz_create(rig.ia, &rig.pz));
	for (int i = 0; i < COUNT(contexts); i++) {
		ck_dat(ofi_lmr_create(&rig));
		contexts[i] = rig.target.rmr_context;
		ck_assert_uint_ne(contexts[i], 0);
		ck_dat(lmr_free(rig.lmr));
	}
	rig.lmr = DAT_HANDLE_NULL;
	/* by chance once in 2^57 runs */
	for (int i = 1; i < COUNT(contexts); i++)
		steps += contexts[i] - contexts[i - 1] < 256;
	ck_assert_uint_lt(steps, 3);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(a_key_in_use_is_drawn_anew_and_0_is_none)
{
	const uint32_t keys[] = { 7, 7, 0, 7, 8 };
	DAT_LMR_HANDLE first;
	struct ofi_rig rig;

	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(pz_create(rig.ia, &rig.pz));
	ff_random(keys, COUNT(keys));
	ck_dat(ofi_lmr_create(&rig));
	ck_assert_uint_eq(rig.target.rmr_context, 7);
	first = rig.lmr;
	ck_dat(ofi_lmr_create(&rig));
	ck_assert_uint_eq(rig.target.rmr_context, 8);
	ck_dat(lmr_free(first));
	ofi_rig_close(&rig);
}
END_TEST

/* The errors that say of a key that it can't be had. */
static const int key_refused[] = { FI_ENOKEY, FI_EKEYREJECTED };

START_TEST(a_key_that_is_refused_is_followed_by_another)
{
	struct ofi_rig rig;

	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(pz_create(rig.ia, &rig.pz));
	ff_fail("fi_mr_regattr", key_refused[_i], 1);
	ck_dat(ofi_lmr_create(&rig));
	ck_assert(!ff_fail_left("fi_mr_regattr"));
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(without_a_key_that_is_free_the_region_is_a_shortage)
{
	struct ofi_rig rig;

	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(pz_create(rig.ia, &rig.pz));
	ff_fail_times("fi_mr_regattr", key_refused[_i], 1000);
	ck_dat_is(ofi_lmr_create(&rig), DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION);
	ck_assert(ff_fail_left("fi_mr_regattr"));
	ck_dat(ofi_lmr_create(&rig));
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(a_key_is_no_wider_than_those_of_the_provider)
{
	const uint32_t keys[] = { 0xabcd0000, 0xabcd1234 };
	struct ofi_rig rig;

	ff_provider()->mr_key_size = 2;
	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(pz_create(rig.ia, &rig.pz));
	ff_random(keys, COUNT(keys));
	ck_dat(ofi_lmr_create(&rig));
	ck_assert_uint_eq(rig.target.rmr_context, 0x1234);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(without_random_numbers_keys_still_differ)
{
	DAT_LMR_HANDLE first;
	struct ofi_rig rig;

	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(pz_create(rig.ia, &rig.pz));
	ff_fail_times("getrandom", ENOSYS, 1000);
	ck_dat(ofi_lmr_create(&rig));
	first = rig.lmr;
	ck_dat(ofi_lmr_create(&rig));
	ck_dat(lmr_free(first));
	ofi_rig_close(&rig);
}
END_TEST

/* A system call for each would be the most of what a registration takes. */
START_TEST(many_keys_are_drawn_at_once_and_none_is_used_twice)
{
	static DAT_RMR_CONTEXT contexts[200];
	struct ofi_rig rig;
	unsigned draws;

	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(pz_create(rig.ia, &rig.pz));
	draws = ff_calls("getrandom");
	for (int i = 0; i < COUNT(contexts); i++) {
		ck_dat(ofi_lmr_create(&rig));
		contexts[i] = rig.target.rmr_context;
		ck_dat(lmr_free(rig.lmr));
	}
	rig.lmr = DAT_HANDLE_NULL;
	ck_assert_uint_le(ff_calls("getrandom") - draws, 4);
	/* by chance once in 200,000 runs, so a few are allowed */
	draws = 0;
	for (int i = 1; i < COUNT(contexts); i++)
		for (int before = 0; before < i; before++)
			draws += contexts[i] == contexts[before];
	ck_assert_uint_lt(draws, 3);
	ofi_rig_close(&rig);
}
END_TEST

/* The provider makes the keys. */
START_TEST(keys_that_no_context_holds_are_refused_at_the_open)
{
	ff_provider()->mr_mode = ALL_OF_VERBS;
	ff_provider()->first_key = UINT64_C(1) << 32;
	open_is_refused(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE, "keys of more than 32 bits");
}
END_TEST

/* As libfabric's tcp since 2.0. */
START_TEST(a_region_for_local_use_needs_no_key)
{
	struct ofi_rig rig;
	DAT_REGION_DESCRIPTION region;
	DAT_LMR_CONTEXT context;
	DAT_LMR_HANDLE lmr;

	ff_provider()->keys_for_peers = true;
	ofi_rig_open(&rig);
	region.for_va = rig.memory;
	ck_dat(lmr_create_va(rig.ia, DAT_MEM_TYPE_VIRTUAL, region, OFI_MEMORY, rig.pz,
			     DAT_MEM_PRIV_LOCAL_READ_FLAG, &lmr, &context, NULL, NULL, NULL));
	rig.segment.lmr_context = context;
	ck_assert_uint_eq(ofi_write(&rig, rig.target.rmr_context), DAT_DTO_SUCCESS);
	ck_dat(lmr_free(lmr));
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(when_the_keys_of_32_bits_are_used_up_a_region_is_a_shortage)
{
	struct ofi_rig rig;

	ff_provider()->mr_mode = ALL_OF_VERBS;
	ff_provider()->first_key = UINT32_MAX;
	ck_dat(ofi_ia_open(&rig, PARAMS)); /* that was the last one */
	ck_dat(pz_create(rig.ia, &rig.pz));
	ff_log_capture();
	ck_dat_is(ofi_lmr_create(&rig), DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION);
	ck_assert_ptr_nonnull(strstr(ff_log(), "no key of 32 bits is left"));
	ck_assert_uint_eq(ff_alive(FF_MR), 0);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(the_key_of_a_freed_region_is_refused)
{
	DAT_LMR_HANDLE other;
	DAT_RMR_CONTEXT stale;
	struct ofi_rig rig;

	ofi_rig_open(&rig);
	stale = rig.target.rmr_context;
	other = rig.lmr;
	ck_dat(ofi_lmr_create(&rig));
	ck_dat(lmr_free(other));
	ck_assert_uint_eq(ofi_write(&rig, stale), DAT_DTO_ERR_FLUSHED);
	ck_assert_int_eq(rig.memory[OFI_MEMORY / 2], 0);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(the_key_of_another_ia_is_refused)
{
	struct ofi_rig rig, other;

	ofi_rig_open(&rig);
	ck_dat(ofi_ia_open(&other, PARAMS));
	ck_dat(pz_create(other.ia, &other.pz));
	ck_dat(ofi_lmr_create(&other));
	rig.target.REMOTE_ADDRESS = other.target.REMOTE_ADDRESS;
	ck_assert_uint_eq(ofi_write(&rig, other.target.rmr_context), DAT_DTO_ERR_FLUSHED);
	ck_assert_int_eq(other.memory[OFI_MEMORY / 2], 0);
	ck_dat(lmr_free(other.lmr));
	ck_dat(pz_free(other.pz));
	ck_dat(ia_close(other.ia, DAT_CLOSE_GRACEFUL_FLAG));
	free(other.memory);
	ofi_rig_close(&rig);
}
END_TEST

/* ---- rights ---- */

#define NONE		     DAT_MEM_PRIV_NONE_FLAG
#define LOCAL_READ	     DAT_MEM_PRIV_LOCAL_READ_FLAG
#define LOCAL_WRITE	     DAT_MEM_PRIV_LOCAL_WRITE_FLAG
#define REMOTE_READ	     DAT_MEM_PRIV_REMOTE_READ_FLAG
#define REMOTE_WRITE	     DAT_MEM_PRIV_REMOTE_WRITE_FLAG
#define FI_LOCAL_SOURCE	     (FI_SEND | FI_WRITE)
#define FI_LOCAL_DESTINATION (FI_RECV | FI_READ)

static const struct {
	int priv;
	uint64_t access;
} rights[] = {
	{ NONE, FI_LOCAL_SOURCE },
	{ LOCAL_READ, FI_LOCAL_SOURCE },
	{ LOCAL_WRITE, FI_LOCAL_SOURCE | FI_LOCAL_DESTINATION },
	{ REMOTE_READ, FI_LOCAL_SOURCE | FI_REMOTE_READ },
	{ REMOTE_WRITE, FI_LOCAL_SOURCE | FI_LOCAL_DESTINATION | FI_REMOTE_WRITE },
	{ DAT_MEM_PRIV_ALL_FLAG,
	  FI_LOCAL_SOURCE | FI_LOCAL_DESTINATION | FI_REMOTE_READ | FI_REMOTE_WRITE },
};

START_TEST(each_privilege_is_the_right_of_libfabric)
{
	DAT_REGION_DESCRIPTION region;
	struct ofi_rig rig;

	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(pz_create(rig.ia, &rig.pz));
	region.for_va = rig.memory;
	ck_dat(lmr_create_va(rig.ia, DAT_MEM_TYPE_VIRTUAL, region, OFI_MEMORY, rig.pz,
			     (DAT_MEM_PRIV_FLAGS)rights[_i].priv, &rig.lmr, NULL, NULL, NULL,
			     NULL));
	ck_assert_uint_eq(ff_seen().mr.access, rights[_i].access);
	ofi_rig_close(&rig);
}
END_TEST

/* ---- registration ---- */

START_TEST(a_region_in_use_stays_and_can_be_used)
{
	struct ofi_rig rig;

	ofi_rig_open(&rig);
	ff_fail("fi_close_mr", FI_EBUSY, 1);
	ck_dat_is(lmr_free(rig.lmr), DAT_INVALID_STATE, DAT_INVALID_STATE_LMR_IN_USE);
	transfers_work(&rig);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(another_failure_to_deregister_keeps_the_region)
{
	struct ofi_rig rig;

	ofi_rig_open(&rig);
	ff_fail("fi_close_mr", FI_EIO, 1);
	ck_dat_is(lmr_free(rig.lmr), DAT_INTERNAL_ERROR, DAT_NO_SUBTYPE);
	transfers_work(&rig);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(a_registration_that_is_reported_is_waited_for)
{
	struct ofi_rig rig;

	ff_provider()->mr_mode = ALL_OF_VERBS;
	ff_provider()->asynchronous = true;
	ofi_rig_open(&rig);
	ck_assert_uint_eq(ff_calls("fi_domain_bind"), 1);
	transfers_work(&rig);
	ofi_rig_close(&rig);
}
END_TEST

static const struct {
	const char *call;
	int err;
	DAT_RETURN ret;
} lost_reports[] = {
	{ "fi_eq_read", FI_EAGAIN, DAT_SUCCESS },
	{ "fi_eq_read", FI_EINTR, DAT_SUCCESS },
	{ "fi_eq_read", FI_EIO, DAT_ERROR(DAT_INTERNAL_ERROR, DAT_NO_SUBTYPE) },
	{ "fi_mr_complete", FI_ENOMEM,
	  DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION) },
};

/* What is left of one that failed is not taken for the next one. */
START_TEST(a_registration_whose_report_is_a_failure_leaves_nothing)
{
	struct ofi_rig rig;

	ff_provider()->mr_mode = ALL_OF_VERBS;
	ff_provider()->asynchronous = true;
	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(pz_create(rig.ia, &rig.pz));
	ff_fail(lost_reports[_i].call, lost_reports[_i].err, 1);
	ck_assert_uint_eq(ofi_lmr_create(&rig), lost_reports[_i].ret);
	ck_assert_uint_eq(ff_alive(FF_MR), !lost_reports[_i].ret);
	if (rig.lmr)
		ck_dat(lmr_free(rig.lmr));
	ck_dat(ofi_lmr_create(&rig));
	ofi_rig_close(&rig);
}
END_TEST

/* The last 64 bytes of the address space: the address behind them is 0. */
static void *const nowhere[] = { (void *)64, (void *)(UINTPTR_MAX - 63) };

START_TEST(memory_that_is_not_there_is_not_registered)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = nowhere[_i] };
	struct ofi_rig rig;

	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(pz_create(rig.ia, &rig.pz));
	ck_dat_is(lmr_create_va(rig.ia, DAT_MEM_TYPE_VIRTUAL, region, 64, rig.pz,
				DAT_MEM_PRIV_ALL_FLAG, &rig.lmr, NULL, NULL, NULL, NULL),
		  DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
	ck_assert_uint_eq(ff_alive(FF_MR), 0);
	ofi_rig_close(&rig);
}
END_TEST

/* Before Linux 5.14 the kernel can't be asked for the pages. */
START_TEST(on_an_older_kernel_the_map_of_the_process_is_read)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = (void *)64 };
	struct ofi_rig rig;

	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(pz_create(rig.ia, &rig.pz));
	ff_fail_times("madvise", EINVAL, 2);
	ck_dat_is(lmr_create_va(rig.ia, DAT_MEM_TYPE_VIRTUAL, region, 64, rig.pz,
				DAT_MEM_PRIV_ALL_FLAG, &rig.lmr, NULL, NULL, NULL, NULL),
		  DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
	ck_dat(ofi_lmr_create(&rig));
	ofi_rig_close(&rig);
}
END_TEST

/* The first has no access at all; of the second one the first page can be read. */
static const struct {
	int protection;
	bool of_a_file;
} unreadable[] = { { PROT_NONE, false }, { PROT_READ | PROT_WRITE, true } };

/*
 * Memory of a GPU may be mapped, and a load from it fail, of which the kernel says what it says of
 * each special mapping. What is behind the end of a file is like that.
 */
START_TEST(memory_that_the_processor_can_not_read_is_not_registered)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	DAT_REGION_DESCRIPTION region;
	struct ofi_rig rig;
	int file = memfd_create("a page", MFD_CLOEXEC);

	ck_assert_int_eq(ftruncate(file, (off_t)page), 0);
	region.for_va = mmap(NULL, 2 * page, unreadable[_i].protection,
			     unreadable[_i].of_a_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS,
			     unreadable[_i].of_a_file ? file : -1, 0);
	ck_assert_ptr_ne(region.for_va, MAP_FAILED);
	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(pz_create(rig.ia, &rig.pz));
	if (unreadable[_i].of_a_file)
		ff_fail_times("madvise", EINVAL, 1);
	ck_dat_is(lmr_create_va(rig.ia, DAT_MEM_TYPE_VIRTUAL, region, 2 * page, rig.pz,
				DAT_MEM_PRIV_LOCAL_READ_FLAG, &rig.lmr, NULL, NULL, NULL, NULL),
		  DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
	ck_assert_uint_eq(ff_alive(FF_MR), 0);
	ofi_rig_close(&rig);
	munmap(region.for_va, 2 * page);
	close(file);
}
END_TEST

static const struct {
	const char *setting;
	bool populates;
} populating[] = { { NULL, true }, { "1", true }, { "0", false }, { "no", true } };

static bool is_there(void *page)
{
	unsigned char state;

	ck_assert_int_eq(mincore(page, 1, &state), 0);
	return state & 1;
}

START_TEST(a_page_is_touched_by_its_registration_unless_the_user_wants_it_otherwise)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	DAT_REGION_DESCRIPTION region;
	struct ofi_rig rig;

	unsetenv("DAPL_OFI_POPULATE");
	if (populating[_i].setting)
		setenv("DAPL_OFI_POPULATE", populating[_i].setting, 1);
	region.for_va = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
	ck_assert_ptr_ne(region.for_va, MAP_FAILED);
	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(pz_create(rig.ia, &rig.pz));
	ck_dat(lmr_create_va(rig.ia, DAT_MEM_TYPE_VIRTUAL, region, page, rig.pz,
			     DAT_MEM_PRIV_ALL_FLAG, &rig.lmr, NULL, NULL, NULL, NULL));
	ck_assert_int_eq(is_there(region.for_va), populating[_i].populates);
	ck_dat(lmr_free(rig.lmr));
	rig.lmr = DAT_HANDLE_NULL;
	ck_assert_int_eq(mprotect(region.for_va, page, PROT_READ), 0);
	ck_dat_is(lmr_create_va(rig.ia, DAT_MEM_TYPE_VIRTUAL, region, page, rig.pz,
				DAT_MEM_PRIV_ALL_FLAG, &rig.lmr, NULL, NULL, NULL, NULL),
		  DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE);
	munmap(region.for_va, page);
	ck_dat_is(lmr_create_va(rig.ia, DAT_MEM_TYPE_VIRTUAL, region, page, rig.pz,
				DAT_MEM_PRIV_ALL_FLAG, &rig.lmr, NULL, NULL, NULL, NULL),
		  DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(a_bind_is_within_a_region_whose_memory_was_looked_at)
{
	DAT_RMR_CONTEXT context;
	DAT_LMR_TRIPLET range;
	DAT_RMR_HANDLE rmr;
	struct ofi_rig rig;
	unsigned looks;

	ofi_rig_open(&rig);
	range = rig.segment;
	range.virtual_address = rig.target.REMOTE_ADDRESS;
	ck_dat(rmr_create(rig.pz, &rmr));
	looks = ff_calls("madvise");
	ck_assert_uint_eq(looks, 1);
	ck_dat(rmr_bind_va(rmr, &range, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, rig.active,
			   (DAT_RMR_COOKIE){ .as_64 = 1 }, DAT_COMPLETION_DEFAULT_FLAG, &context));
	ck_assert_uint_eq(ofi_event(rig.dto_evd).event_number, DAT_RMR_BIND_COMPLETION_EVENT);
	ck_assert_uint_eq(ff_calls("madvise"), looks);
	ck_assert_uint_eq(ofi_write(&rig, context), DAT_DTO_SUCCESS);
	ck_dat(rmr_free(rmr));
	ofi_rig_close(&rig);
}
END_TEST

/* ---- completion and order ---- */

START_TEST(a_write_completes_when_it_is_placed_if_the_provider_can_say_so)
{
	struct ofi_rig rig;
	bool placed = _i;

	ff_provider()->op_flags = placed ? FI_DELIVERY_COMPLETE : 0;
	ofi_rig_open(&rig);
	ck_assert_uint_eq(ofi_write(&rig, rig.target.rmr_context), DAT_DTO_SUCCESS);
	ck_assert_uint_eq(ff_seen().write_flags,
			  FI_COMPLETION | (placed ? FI_DELIVERY_COMPLETE : 0));
	ofi_rig_close(&rig);
}
END_TEST

#define RELAXED (FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_RAW | FI_ORDER_RAS)

START_TEST(without_the_order_of_writes_a_program_must_be_aware_of_that)
{
	ff_provider()->orders = RELAXED;
	open_is_refused(DAT_INVALID_PARAMETER, DAT_INVALID_RO_COOKIE,
			"RDMA writes may be seen out of order here");
}
END_TEST

/* Only such a provider is asked about: the registry's handles are not those of the core. */
START_TEST(without_the_order_of_writes_strict_regions_are_not_served)
{
	static const struct {
		DAT_MEM_TYPE type;
		int priv;
		DAT_RETURN ret;
	} regions[] = {
		{ DAT_MEM_TYPE_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG, DAT_SUCCESS },
		{ DAT_MEM_TYPE_SO_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG,
		  DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE) },
		{ DAT_MEM_TYPE_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG | DAT_MEM_PRIV_RO_DISABLE_FLAG,
		  DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE) },
	};
	const DAT_PROVIDER_INFO info = { "ofi", DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_FALSE };
	DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
	DAT_PROVIDER_ATTR attr;
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	static char memory[64];

	ff_provider()->orders = RELAXED;
	dat_provider_init(&info, PARAMS);
	ck_dat(dat_ia_open((DAT_NAME_PTR) "RO_AWARE_ofi", 8, &async_evd, &ia));
	ck_dat(dat_ia_query(ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &attr));
	ck_assert_int_eq(attr.lmr_mem_types_supported, DAT_MEM_TYPE_VIRTUAL);
	ck_dat(dat_pz_create(ia, &pz));
	for (int i = 0; i < COUNT(regions); i++) {
		const DAT_REGION_DESCRIPTION region = { .for_va = memory };
		DAT_LMR_HANDLE lmr;

		ck_assert_uint_eq(dat_lmr_create(ia, regions[i].type, region, sizeof(memory), pz,
						 (DAT_MEM_PRIV_FLAGS)regions[i].priv, &lmr, NULL,
						 NULL, NULL, NULL),
				  regions[i].ret);
		if (!regions[i].ret)
			ck_dat(dat_lmr_free(lmr));
	}
	ck_dat(dat_pz_free(pz));
	ck_dat(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	ck_assert_uint_eq(ff_alive(FF_KINDS), 0);
}
END_TEST

START_TEST(without_the_order_of_messages_the_open_is_refused)
{
	ff_provider()->orders = FI_ORDER_SAS | FI_ORDER_WAW;
	open_is_refused(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE, "in the order of RDMA");
}
END_TEST

/* ---- the cases ---- */

static TCase *modes(void)
{
	TCase *tcase = tcase_create("modes");

	tcase_add_loop_test(tcase, what_the_provider_wants_of_regions_is_given, 0, COUNT(served));
	tcase_add_loop_test(tcase, what_dat_can_not_give_is_refused_at_the_open, 0, COUNT(refused));
	tcase_add_test(tcase, a_provider_that_knows_the_older_mode_only_is_served_in_that);
	tcase_add_test(tcase, where_virtual_addresses_are_not_taken_the_older_mode_has_them);
	tcase_add_test(tcase, a_write_that_is_never_placed_is_waited_for_a_moment_only);
	tcase_add_test(tcase, without_virtual_addresses_in_any_mode_the_open_is_refused);
	return tcase;
}

static TCase *keys(void)
{
	TCase *tcase = tcase_create("keys");

	tcase_add_test(tcase, keys_are_not_in_sequence);
	tcase_add_test(tcase, a_key_in_use_is_drawn_anew_and_0_is_none);
	tcase_add_loop_test(tcase, a_key_that_is_refused_is_followed_by_another, 0,
			    COUNT(key_refused));
	tcase_add_loop_test(tcase, without_a_key_that_is_free_the_region_is_a_shortage, 0,
			    COUNT(key_refused));
	tcase_add_test(tcase, a_key_is_no_wider_than_those_of_the_provider);
	tcase_add_test(tcase, without_random_numbers_keys_still_differ);
	tcase_add_test(tcase, many_keys_are_drawn_at_once_and_none_is_used_twice);
	tcase_add_test(tcase, keys_that_no_context_holds_are_refused_at_the_open);
	tcase_add_test(tcase, a_region_for_local_use_needs_no_key);
	tcase_add_test(tcase, when_the_keys_of_32_bits_are_used_up_a_region_is_a_shortage);
	tcase_add_test(tcase, the_key_of_a_freed_region_is_refused);
	tcase_add_test(tcase, the_key_of_another_ia_is_refused);
	return tcase;
}

static TCase *registration(void)
{
	TCase *tcase = tcase_create("registration");

	tcase_add_loop_test(tcase, each_privilege_is_the_right_of_libfabric, 0, COUNT(rights));
	tcase_add_test(tcase, a_region_in_use_stays_and_can_be_used);
	tcase_add_test(tcase, another_failure_to_deregister_keeps_the_region);
	tcase_add_test(tcase, a_registration_that_is_reported_is_waited_for);
	tcase_add_loop_test(tcase, a_registration_whose_report_is_a_failure_leaves_nothing, 0,
			    COUNT(lost_reports));
	tcase_add_loop_test(tcase, memory_that_is_not_there_is_not_registered, 0, COUNT(nowhere));
	tcase_add_loop_test(tcase, memory_that_the_processor_can_not_read_is_not_registered, 0,
			    COUNT(unreadable));
	tcase_add_loop_test(
		tcase, a_page_is_touched_by_its_registration_unless_the_user_wants_it_otherwise, 0,
		COUNT(populating));
	tcase_add_test(tcase, a_bind_is_within_a_region_whose_memory_was_looked_at);
	tcase_add_test(tcase, on_an_older_kernel_the_map_of_the_process_is_read);
	return tcase;
}

static TCase *order(void)
{
	TCase *tcase = tcase_create("order");

	tcase_add_loop_test(tcase, a_write_completes_when_it_is_placed_if_the_provider_can_say_so,
			    0, 2);
	tcase_add_test(tcase, without_the_order_of_writes_a_program_must_be_aware_of_that);
	tcase_add_test(tcase, without_the_order_of_writes_strict_regions_are_not_served);
	tcase_add_test(tcase, without_the_order_of_messages_the_open_is_refused);
	return tcase;
}

int main(int argc, char **argv)
{
	modes();
	keys();
	registration();
	order();
	return run_cases(argc, argv);
}
