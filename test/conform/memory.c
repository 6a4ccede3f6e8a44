/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection zones and local memory regions: what can be registered, which transfers it then
 * permits, and until when.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conform.h"

#define PAGE ((size_t)4096)

static struct pair pair; /* of the case that runs in this process */

/* ---- regions ---- */

static DAT_RETURN try_virtual(const struct side *side, void *at, size_t size, unsigned priv,
			      struct region *region)
{
	const DAT_REGION_DESCRIPTION what = { .for_va = at };

	return region_try(side, DAT_MEM_TYPE_VIRTUAL, what, size, (DAT_MEM_PRIV_FLAGS)priv, region);
}

/* One more region of all of a side's memory. */
static struct region region_of(const struct side *side, DAT_MEM_TYPE type, DAT_MEM_PRIV_FLAGS priv)
{
	DAT_REGION_DESCRIPTION what = { .for_va = side->memory };
	struct region region = { .at = side->memory, .size = side->size };

	if (type == DAT_MEM_TYPE_LMR)
		what.for_lmr_handle = side->lmr;
	ck_dat(region_try(side, type, what, side->size, priv, &region));
	return region;
}

static struct region region_with(const struct side *side, DAT_MEM_PRIV_FLAGS priv)
{
	return region_of(side, DAT_MEM_TYPE_VIRTUAL, priv);
}

/* ---- zones ---- */

/* By objects of each kind, alone and together. A refused free changes nothing. */
START_TEST(zone_in_use_is_not_freed)
{
	struct side other;
	struct region region;
	DAT_RMR_HANDLE rmr;
	DAT_PZ_PARAM param;
	DAT_EP_HANDLE ep;

	pair_open_unconnected(&pair, NULL);
	side_copy_in_new_zone(&other, &pair.client);
	ck_dat_is(dat_pz_free(other.pz), BAD_STATE(PZ_IN_USE));
	ck_dat(dat_lmr_free(other.lmr));
	ck_dat(dat_rmr_create(other.pz, &rmr));
	ck_dat_is(dat_pz_free(other.pz), BAD_STATE(PZ_IN_USE));
	ck_dat(dat_rmr_free(rmr));
	ep = side_create_ep(&other, NULL);
	ck_dat_is(dat_pz_free(other.pz), BAD_STATE(PZ_IN_USE));
	region = region_with(&other, DAT_MEM_PRIV_ALL_FLAG);
	ck_dat_is(dat_pz_free(other.pz), BAD_STATE(PZ_IN_USE));
	ck_dat(dat_rmr_create(other.pz, &rmr));
	ck_dat(dat_lmr_free(region.lmr));
	ck_dat_is(dat_pz_free(other.pz), BAD_STATE(PZ_IN_USE));
	ck_dat(dat_ep_free(ep));
	ck_dat_is(dat_pz_free(other.pz), BAD_STATE(PZ_IN_USE));
	ck_dat(dat_rmr_free(rmr));
	region = region_with(&other, DAT_MEM_PRIV_ALL_FLAG);
	ck_dat(dat_lmr_free(region.lmr));
	ck_dat(dat_pz_query(other.pz, DAT_PZ_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.ia_handle, pair.client.ia);
	ck_dat(dat_pz_free(other.pz));
	ck_dat_is(dat_pz_free(other.pz), BAD_HANDLE(PZ));
	ck_dat_is(dat_pz_query(other.pz, DAT_PZ_FIELD_ALL, &param), BAD_HANDLE(PZ));
	pair_close(&pair);
}
END_TEST

/* The send is too long for a device to copy it, unchecked, when it is posted. */
START_TEST(send_from_another_zone_is_refused)
{
	struct side other;

	pair_open(&pair, NULL);
	side_copy_in_new_zone(&other, &pair.client);
	pattern_fill(pair.client.memory, SIDE_MEMORY, 1);
	pattern_fill(pair.server.memory, SIDE_MEMORY, 2);
	post_recv(pair.server.ep, 1, segment(&pair.server, 0, SIDE_MEMORY));
	post_send(pair.client.ep, 2, segment(&other, 0, 4 * PAGE), DAT_COMPLETION_DEFAULT_FLAG);
	expect_dto(pair.client.request_evd, pair.client.ep, 2, device()->bad_segment, 0);
	expect_connection(&pair.client, DAT_CONNECTION_EVENT_BROKEN);
	expect_end(&pair.server);
	expect_flushed_recvs(&pair.server, 1, 1);
	pattern_check(pair.server.memory, SIDE_MEMORY, 2);
	ck_dat(dat_lmr_free(other.lmr));
	ck_dat(dat_pz_free(other.pz));
	pair_close(&pair);
}
END_TEST

/* ---- registering ---- */

/* One byte at the end of a page, and five across its end. */
static const size_t small_sizes[] = { 1, 5 };

START_TEST(unaligned_range_registers_repeatedly)
{
	const size_t size = small_sizes[_i];
	DAT_REGION_DESCRIPTION what;
	DAT_LMR_CONTEXT lmr_context[2];
	DAT_RMR_CONTEXT rmr_context[2];
	DAT_LMR_HANDLE lmr[2];
	DAT_LMR_PARAM param;
	DAT_VADDR address;
	DAT_VLEN registered;
	struct side other;

	pair_open_unconnected(&pair, NULL);
	side_copy_in_new_zone(&other, &pair.client);
	ck_dat(dat_lmr_free(other.lmr));
	what.for_va = other.memory + (size == 1 ? PAGE - 1 : PAGE - 3);
	for (int n = 0; n < 2; n++) {
		ck_dat(LMR_CREATE(other.ia, DAT_MEM_TYPE_VIRTUAL, what, size, other.pz,
				  DAT_MEM_PRIV_ALL_FLAG, &lmr[n], &lmr_context[n], &rmr_context[n],
				  &registered, &address));
		ck_assert_uint_le(address, (uintptr_t)what.for_va);
		ck_assert_uint_ge(address + registered, (uintptr_t)what.for_va + size);
	}
	ck_assert_uint_ne(lmr_context[0], lmr_context[1]);
	ck_assert_uint_ne(rmr_context[0], rmr_context[1]);
	ck_dat_is(dat_pz_free(other.pz), BAD_STATE(PZ_IN_USE));
	ck_dat(dat_lmr_free(lmr[0]));
	ck_dat_is(dat_lmr_free(lmr[0]), BAD_HANDLE(LMR));
	ck_dat_is(dat_lmr_query(lmr[0], DAT_LMR_FIELD_ALL, &param), BAD_HANDLE(LMR));
	ck_dat(dat_lmr_query(lmr[1], DAT_LMR_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.ia_handle, other.ia);
	ck_assert_ptr_eq(param.pz_handle, other.pz);
	ck_assert_ptr_eq(param.region_desc.for_va, what.for_va);
	ck_assert_uint_eq(param.length, size);
	ck_assert_int_eq(param.mem_priv, DAT_MEM_PRIV_ALL_FLAG);
	ck_assert_uint_eq(param.lmr_context, lmr_context[1]);
	ck_assert_uint_eq(param.rmr_context, rmr_context[1]);
	ck_dat(dat_lmr_free(lmr[1]));
	ck_dat_is(dat_lmr_free(lmr[1]), BAD_HANDLE(LMR));
	ck_dat(dat_pz_free(other.pz));
	ck_dat_is(dat_pz_free(other.pz), BAD_HANDLE(PZ));
	pair_close(&pair);
}
END_TEST

START_TEST(all_outputs_but_the_handle_are_optional)
{
	const struct side *side = &pair.client;
	DAT_REGION_DESCRIPTION what;
	DAT_LMR_HANDLE lmr;

	pair_open_unconnected(&pair, NULL);
	what.for_va = side->memory;
	ck_dat(LMR_CREATE(side->ia, DAT_MEM_TYPE_VIRTUAL, what, 1, side->pz, DAT_MEM_PRIV_ALL_FLAG,
			  &lmr, NULL, NULL, NULL, NULL));
	ck_dat(dat_lmr_free(lmr));
	ck_dat_is(LMR_CREATE(side->ia, DAT_MEM_TYPE_VIRTUAL, what, 1, side->pz,
			     DAT_MEM_PRIV_ALL_FLAG, NULL, NULL, NULL, NULL, NULL),
		  BAD_ARG_OF(7, 8));
	pair_close(&pair);
}
END_TEST

#define TOO_FAR 0x7fffffff

static const struct {
	const char *what;
	bool at_null;
	unsigned type, priv;
	DAT_VLEN length; /* TOO_FAR: one byte beyond the end of the address space */
	DAT_RETURN want;
} invalid[] = {
	{ "type", false, 9, DAT_MEM_PRIV_ALL_FLAG, 1, BAD_ARG(2) },
	{ "null", true, DAT_MEM_TYPE_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG, 1, BAD_ARG(3) },
	{ "null", true, DAT_MEM_TYPE_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG, PAGE, BAD_ARG(3) },
	{ "no cookie", false, DAT_MEM_TYPE_SHARED_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG, 1, BAD_ARG(3) },
	{ "no byte", false, DAT_MEM_TYPE_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG, 0, BAD_ARG(4) },
	{ "no byte", false, DAT_MEM_TYPE_SO_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG, 0, BAD_ARG(4) },
	{ "length", false, DAT_MEM_TYPE_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG, UINT64_MAX, BAD_ARG(4) },
	{ "length", false, DAT_MEM_TYPE_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG, TOO_FAR, BAD_ARG(4) },
};

/* From @at to so many bytes beyond the end of the address space. */
static DAT_VLEN length_beyond(const void *at, DAT_VLEN beyond)
{
	return UINT64_MAX - (uintptr_t)at + 1 + beyond;
}

START_TEST(invalid_argument_is_identified)
{
	pair_open_unconnected(&pair, NULL);
	for (size_t n = 0; n < COUNT(invalid); n++) {
		void *at = invalid[n].at_null ? NULL : pair.client.memory;
		const DAT_REGION_DESCRIPTION what = { .for_shared_memory = { at, NULL } };
		const DAT_VLEN length = invalid[n].length == TOO_FAR ? length_beyond(at, 1)
								     : invalid[n].length;
		struct region region = { .lmr = &pair, .lmr_context = 1, .rmr_context = 2 };
		DAT_RETURN ret = region_try(&pair.client, (DAT_MEM_TYPE)invalid[n].type, what,
					    length, (DAT_MEM_PRIV_FLAGS)invalid[n].priv, &region);

		ck_assert_msg(ret == invalid[n].want, "%zu (%s): %s, not %s", n, invalid[n].what,
			      status_text(ret), status_text(invalid[n].want));
	}
	pair_close(&pair);
}
END_TEST

START_TEST(unmapped_and_read_only_pages_are_refused)
{
	const struct side *side = &pair.client;
	struct region region = { .lmr = NULL };
	unsigned char *pages, *constant;

	pair_open_unconnected(&pair, NULL);
	constant = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* last, so that no later mapping fills the hole */
	ck_assert_int_eq(munmap(pages + PAGE, PAGE), 0);
	ck_dat_is(try_virtual(side, pages, 3 * PAGE, DAT_MEM_PRIV_ALL_FLAG, &region), BAD_ARG(3));
	ck_dat_is(
		try_virtual(side, pages, length_beyond(pages, 0), DAT_MEM_PRIV_READ_FLAG, &region),
		BAD_ARG(3));
	/* no byte of the range is mapped, or only its first, or only its last */
	ck_dat_is(try_virtual(side, pages + PAGE, 1, DAT_MEM_PRIV_READ_FLAG, &region), BAD_ARG(3));
	ck_dat_is(try_virtual(side, pages + PAGE, PAGE, DAT_MEM_PRIV_READ_FLAG, &region),
		  BAD_ARG(3));
	ck_dat_is(try_virtual(side, pages + PAGE - 1, 2, DAT_MEM_PRIV_READ_FLAG, &region),
		  BAD_ARG(3));
	ck_dat_is(try_virtual(side, pages + 2 * PAGE - 1, 2, DAT_MEM_PRIV_READ_FLAG, &region),
		  BAD_ARG(3));
	ck_dat_is(try_virtual(side, constant, PAGE, DAT_MEM_PRIV_LOCAL_WRITE_FLAG, &region),
		  NO_PRIVILEGE(WRITE));
	ck_dat_is(try_virtual(side, constant, PAGE, DAT_MEM_PRIV_ALL_FLAG, &region),
		  NO_PRIVILEGE(WRITE));
	ck_dat(try_virtual(side, constant, PAGE, DAT_MEM_PRIV_READ_FLAG, &region));
	ck_dat(dat_lmr_free(region.lmr));
	ck_dat(try_virtual(side, pages, PAGE, DAT_MEM_PRIV_NONE_FLAG, &region));
	ck_dat(dat_lmr_free(region.lmr));
	ck_dat(try_virtual(side, pages, PAGE, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, &region));
	ck_dat(dat_lmr_free(region.lmr));
	munmap(constant, PAGE);
	munmap(pages, PAGE);
	munmap(pages + 2 * PAGE, PAGE);
	pair_close(&pair);
}
END_TEST

/* The device answers differently to a limit of 0 and to a higher one; the provider does not. */
static const struct {
	size_t limit;
	const char *text;
} limits[] = {
	{ 1 << 20, "RLIMIT_MEMLOCK is 1024 KiB" },
	{ 0, "RLIMIT_MEMLOCK is 0 KiB" },
};

START_TEST(memlock_limit_is_reported)
{
	enum { SIZE = 4 << 20 };
	struct region region = { .lmr = NULL };
	const char *text;
	void *at;

	pair_open_unconnected(&pair, NULL);
	at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(at, MAP_FAILED);
	for (size_t n = 0; n < COUNT(limits); n++) {
		memlock_limit(limits[n].limit);
		stderr_redirect();
		ck_dat_is(try_virtual(&pair.client, at, SIZE, DAT_MEM_PRIV_ALL_FLAG, &region),
			  NO_RESOURCE(MEMORY_REGION));
		text = stderr_restore();
		ck_assert_ptr_nonnull(strstr(text, "4194304 bytes"));
		ck_assert_ptr_nonnull(strstr(text, limits[n].text));
		ck_assert_ptr_nonnull(strstr(text, "ulimit -l"));
		ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1); /* one line */
		if (!limits[n].limit)
			continue;
		ck_dat(try_virtual(&pair.client, at, PAGE, DAT_MEM_PRIV_ALL_FLAG, &region));
		ck_dat(dat_lmr_free(region.lmr));
	}
	munmap(at, SIZE);
	pair_close(&pair);
}
END_TEST

/* ---- freeing ---- */

/*
 * While the peer reads. Reads that completed came before the free; the first one after it is
 * refused, and the rest is flushed.
 */
START_TEST(freed_region_refuses_reads)
{
	enum { BEFORE = 4, ALL = 8, SIZE = 30000 };
	const struct side *client = &pair.client;
	DAT_DTO_COMPLETION_STATUS last = DAT_DTO_SUCCESS;
	struct region region;
	unsigned posted;

	pair_open(&pair, NULL);
	pattern_fill(pair.server.memory, SIDE_MEMORY, 1);
	region = region_with(&pair.server, DAT_MEM_PRIV_ALL_FLAG);
	for (posted = 0; posted < BEFORE; posted++)
		post_read(client->ep, posted, segment(client, 0, SIZE),
			  region_target(&region, 0, SIZE), DAT_COMPLETION_DEFAULT_FLAG);
	ck_dat(dat_lmr_free(region.lmr));
	/* From here on the connection may end; no disconnect was requested, so posts succeed. */
	for (; posted < ALL; posted++)
		post_read(client->ep, posted, segment(client, 0, SIZE),
			  region_target(&region, 0, SIZE), DAT_COMPLETION_DEFAULT_FLAG);
	expect_ends(&pair);
	for (unsigned n = 0; n < posted; n++) {
		DAT_EVENT event = expect_event(client->request_evd, DAT_DTO_COMPLETION_EVENT);
		const DAT_DTO_COMPLETION_EVENT_DATA *dto =
			&event.event_data.dto_completion_event_data;

		ck_assert_uint_eq(dto->user_cookie.as_64, n);
		ck_assert(dto->status != DAT_DTO_SUCCESS || n < BEFORE);
		if (last != DAT_DTO_SUCCESS)
			ck_assert_int_eq(dto->status, DAT_DTO_ERR_FLUSHED);
		else if (dto->status != DAT_DTO_SUCCESS && device_has(NEEDS_REMOTE_STATUS))
			ck_assert_int_eq(dto->status, DAT_DTO_ERR_REMOTE_ACCESS);
		last = dto->status;
	}
	ck_assert_int_ne(last, DAT_DTO_SUCCESS);
	ck_dat_is(dat_lmr_free(region.lmr), BAD_HANDLE(LMR));
	pair_reconnect(&pair);
	expect_read(&pair, target(&pair.server, 0, SIZE)); /* another region of the same bytes */
	pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_close(&pair);
}
END_TEST

/* ---- shared memory ---- */

/* These differ in the last byte only, which is beyond a zero byte. */
static char cookie_a[DAT_LMR_COOKIE_SIZE] = "forty\0bytes, all of which are compared.A";
static char cookie_b[DAT_LMR_COOKIE_SIZE] = "forty\0bytes, all of which are compared.B";

/* A mapping of an object that processes share. */
struct shared {
	int fd;
	struct region region;
};

static struct shared shared_map(int fd)
{
	struct shared shared = { .fd = fd };

	shared.region.at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	shared.region.size = PAGE;
	ck_assert_ptr_ne(shared.region.at, MAP_FAILED);
	return shared;
}

static struct shared shared_make(void)
{
	int fd = memfd_create("shared", 0);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, PAGE), 0);
	return shared_map(fd);
}

static void shared_unmap(const struct shared *shared)
{
	munmap(shared->region.at, PAGE);
}

static DAT_RETURN shared_try(const struct side *side, struct shared *shared, DAT_LMR_COOKIE cookie)
{
	const DAT_REGION_DESCRIPTION what = { .for_shared_memory = { shared->region.at, cookie } };

	return region_try(side, DAT_MEM_TYPE_SHARED_VIRTUAL, what, PAGE, DAT_MEM_PRIV_ALL_FLAG,
			  &shared->region);
}

static int shared_fd; /* the object of the two processes */

/* Registers the object in its own mapping, and has a peer of its own write there. */
static void sharing_process(int fd)
{
	struct shared shared = shared_map(shared_fd);
	char word;

	pair_open(&pair, NULL);
	ck_dat(shared_try(&pair.server, &shared, &cookie_a));
	expect_write(&pair, region_target(&shared.region, 0, PAGE));
	channel_send(fd, "w", 1);
	channel_recv(fd, &word, 1); /* the other process is done */
	ck_dat(dat_lmr_free(shared.region.lmr));
	pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_close(&pair);
}

START_TEST(cookie_shares_memory_between_processes)
{
	struct shared shared = shared_make();
	char word;
	pid_t pid;
	int fd;

	shared_fd = shared.fd;
	pid = process_start(sharing_process, &fd);
	pair_open(&pair, NULL);
	ck_dat(shared_try(&pair.server, &shared, &cookie_a));
	channel_recv(fd, &word, 1);
	pattern_check(shared.region.at, PAGE, 3); /* of expect_write in the other process */
	memset(shared.region.at, 'x', PAGE);
	expect_read(&pair, region_target(&shared.region, 0, PAGE));
	bytes_check(pair.client.memory, PAGE, 'x');
	channel_send(fd, "e", 1);
	process_end(pid);
	ck_dat(dat_lmr_free(shared.region.lmr));
	shared_unmap(&shared);
	pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_close(&pair);
}
END_TEST

START_TEST(cookie_names_one_object)
{
	const DAT_RETURN taken = DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE);
	struct shared first = shared_make(), second = shared_make(), same, remapped, renamed;
	const struct side *side = &pair.client;
	DAT_LMR_PARAM param;

	pair_open_unconnected(&pair, NULL);
	ck_assert_int_eq(side->provider.lmr_mem_types_supported, 3);
	ck_dat(shared_try(side, &first, &cookie_a));
	ck_dat_is(shared_try(side, &second, &cookie_a), taken);
	ck_dat(shared_try(side, &second, &cookie_b));
	/* the object once more; through another mapping; by another cookie */
	same = first;
	remapped = shared_map(first.fd);
	ck_dat(shared_try(side, &same, &cookie_a));
	ck_dat(shared_try(side, &remapped, &cookie_a));
	ck_dat(dat_lmr_query(second.region.lmr, DAT_LMR_FIELD_ALL, &param));
	ck_assert_int_eq(param.mem_type, DAT_MEM_TYPE_SHARED_VIRTUAL);
	ck_assert_ptr_eq(param.region_desc.for_shared_memory.virtual_address, second.region.at);
	ck_assert_mem_eq(*param.region_desc.for_shared_memory.shared_memory_id, cookie_b,
			 DAT_LMR_COOKIE_SIZE);
	ck_dat(dat_lmr_free(second.region.lmr));
	renamed = shared_map(first.fd);
	ck_dat(shared_try(side, &renamed, &cookie_b));
	ck_dat(dat_lmr_free(renamed.region.lmr));
	/* the cookie is in use until the last region of that name is freed */
	ck_dat(dat_lmr_free(first.region.lmr));
	ck_dat_is(shared_try(side, &second, &cookie_a), taken);
	ck_dat(dat_lmr_free(same.region.lmr));
	ck_dat_is(shared_try(side, &second, &cookie_a), taken);
	ck_dat(dat_lmr_free(remapped.region.lmr));
	ck_dat(shared_try(side, &second, &cookie_a));
	ck_dat(dat_lmr_free(second.region.lmr));
	shared_unmap(&first);
	shared_unmap(&second);
	shared_unmap(&remapped);
	shared_unmap(&renamed);
	pair_close(&pair);
}
END_TEST

START_TEST(private_memory_has_no_cookie)
{
	struct shared private = { .fd = -1 };

	private.region.at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
	pair_open_unconnected(&pair, NULL);
	ck_dat_is(shared_try(&pair.client, &private, &cookie_a),
		  DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE));
	shared_unmap(&private);
	pair_close(&pair);
}
END_TEST

/* ---- privileges ---- */

START_TEST(receive_needs_local_write)
{
	struct region region;

	pair_open(&pair, NULL);
	pattern_fill(pair.server.memory, SIDE_MEMORY, 1);
	region = region_with(&pair.server, DAT_MEM_PRIV_LOCAL_READ_FLAG);
	post_recv(pair.server.ep, 1, region_segment(&region, 0, 64));
	post_send(pair.client.ep, 2, segment(&pair.client, 0, 64), DAT_COMPLETION_SUPPRESS_FLAG);
	expect_dto(pair.server.recv_evd, pair.server.ep, 1, device()->bad_receive, 0);
	expect_ends(&pair);
	pattern_check(pair.server.memory, SIDE_MEMORY, 1);
	ck_dat(dat_lmr_free(region.lmr));
	pair_close(&pair);
}
END_TEST

START_TEST(read_needs_local_write)
{
	struct region region;

	pair_open(&pair, NULL);
	pattern_fill(pair.client.memory, SIDE_MEMORY, 1);
	region = region_with(&pair.client, DAT_MEM_PRIV_LOCAL_READ_FLAG);
	post_read(pair.client.ep, 1, region_segment(&region, 0, 64), target(&pair.server, 0, 64),
		  DAT_COMPLETION_DEFAULT_FLAG);
	expect_dto(pair.client.request_evd, pair.client.ep, 1, DAT_DTO_ERR_LOCAL_PROTECTION, 0);
	expect_ends(&pair);
	pattern_check(pair.client.memory, SIDE_MEMORY, 1);
	ck_dat(dat_lmr_free(region.lmr));
	pair_close(&pair);
}
END_TEST

START_TEST(region_without_remote_write_refuses_writes)
{
	struct region region;

	pair_open(&pair, NULL);
	region = region_with(&pair.server,
			     (DAT_MEM_PRIV_FLAGS)(LOCAL | DAT_MEM_PRIV_REMOTE_READ_FLAG));
	expect_read(&pair, region_target(&region, 100, 64));
	expect_write_refused(&pair, region_target(&region, 100, 64));
	ck_dat(dat_lmr_free(region.lmr));
	/* remote write suffices: devices that want local write, too, are given both */
	region = region_with(&pair.server, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
	expect_write(&pair, region_target(&region, 100, 64));
	ck_dat(dat_lmr_free(region.lmr));
	pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_close(&pair);
}
END_TEST

START_TEST(region_without_remote_read_refuses_reads)
{
	struct region region;

	pair_open(&pair, NULL);
	region = region_with(&pair.server,
			     (DAT_MEM_PRIV_FLAGS)(LOCAL | DAT_MEM_PRIV_REMOTE_WRITE_FLAG));
	expect_write(&pair, region_target(&region, 100, 64));
	expect_read_refused(&pair, region_target(&region, 100, 64));
	ck_dat(dat_lmr_free(region.lmr));
	pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_close(&pair);
}
END_TEST

#define TYPES ((unsigned)DAT_MEM_TYPE_SO_VIRTUAL + 1)
#define PRIVS 16u

/* Every type of region, with every set of privileges. */
START_TEST(rmr_context_comes_with_remote_privileges)
{
	static const size_t lengths[] = { 1, 61, 2 * PAGE };
	const struct side *side = &pair.client;
	struct region source, region = { .lmr = NULL };
	DAT_LMR_PARAM param;
	void *at;

	pair_open_unconnected(&pair, NULL);
	at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < TYPES * PRIVS * COUNT(lengths); i++) {
		const DAT_MEM_TYPE type = (DAT_MEM_TYPE)(i % TYPES);
		const unsigned bits = i / TYPES % PRIVS, priv = (bits & 3) | (bits & 12) << 2;
		const size_t length = lengths[i / TYPES / PRIVS];
		DAT_REGION_DESCRIPTION what = { .for_shared_memory = { at, &cookie_a } };

		source = region_over(side, at, length, DAT_MEM_PRIV_NONE_FLAG);
		if (type == DAT_MEM_TYPE_LMR)
			what.for_lmr_handle = source.lmr;
		ck_dat(region_try(side, type, what, length, (DAT_MEM_PRIV_FLAGS)priv, &region));
		ck_dat(dat_lmr_query(region.lmr, DAT_LMR_FIELD_ALL, &param));
		ck_assert_int_eq(param.mem_type, type);
		ck_assert_uint_eq(param.mem_priv, priv);
		ck_assert_uint_eq(param.length, length);
		ck_assert_uint_eq(param.registered_address, (uintptr_t)at);
		ck_assert_uint_eq(param.registered_size, length);
		ck_assert_int_eq(param.rmr_context != 0, (priv & REMOTE) != 0);
		ck_assert_uint_eq(param.rmr_context, region.rmr_context);
		ck_dat(dat_lmr_free(source.lmr));
		ck_dat(dat_lmr_free(region.lmr));
	}
	munmap(at, 2 * PAGE);
	pair_close(&pair);
}
END_TEST

/* ---- order ---- */

/* Programs that poll memory for the end of a write rely on it. */
START_TEST(last_byte_of_a_write_is_placed_last)
{
	static const DAT_MEM_TYPE types[] = { DAT_MEM_TYPE_VIRTUAL, DAT_MEM_TYPE_SO_VIRTUAL,
					      DAT_MEM_TYPE_LMR };
	const struct side *client = &pair.client, *server = &pair.server;
	struct region region;
	DAT_LMR_PARAM param;

	pair_open(&pair, NULL);
	for (unsigned n = 0; n < COUNT(types); n++) {
		region = region_of(server, types[n], DAT_MEM_PRIV_ALL_FLAG);
		ck_dat(dat_lmr_query(region.lmr, DAT_LMR_FIELD_MEM_TYPE, &param));
		ck_assert_int_eq(param.mem_type, types[n]);
		for (unsigned turn = 0; turn < 5; turn++) {
			memset(server->memory, 0, SIDE_MEMORY);
			memset(client->memory, 1 + (int)turn, SIDE_MEMORY);
			post_write(client->ep, turn, segment(client, 0, SIDE_MEMORY),
				   region_target(&region, 0, SIDE_MEMORY),
				   DAT_COMPLETION_DEFAULT_FLAG);
			while (!__atomic_load_n(&server->memory[SIDE_MEMORY - 1], __ATOMIC_ACQUIRE))
				sched_yield();
			ck_assert_mem_eq(server->memory, client->memory, SIDE_MEMORY);
			expect_request_done(client, turn, SIDE_MEMORY);
		}
		ck_dat(dat_lmr_free(region.lmr));
	}
	pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	pair_close(&pair);
}
END_TEST

static void open_relaxed(struct side *side, enum end end)
{
	char name[DAT_NAME_MAX_LENGTH];

	snprintf(name, sizeof(name), "RO_AWARE_%s", ia_name(end, BY_INTERFACE));
	side_open_bare_as(side, name, false);
	side_equip(side, NULL, SIDE_MEMORY);
}

/* Relaxed ordering at the server, or at both sides. */
START_TEST(relaxed_ordering_keeps_completed_transfers_visible)
{
	static const DAT_MEM_TYPE types[] = { DAT_MEM_TYPE_VIRTUAL, DAT_MEM_TYPE_SO_VIRTUAL };
	struct region region;

	open_relaxed(&pair.server, SERVER);
	if (_i)
		open_relaxed(&pair.client, CLIENT);
	else
		side_open(&pair.client, CLIENT);
	pair_connect(&pair);
	exchange_messages(&pair);
	for (unsigned n = 0; n < COUNT(types); n++) {
		region = region_of(&pair.server, types[n], DAT_MEM_PRIV_ALL_FLAG);
		expect_write(&pair, region_target(&region, 100, SIDE_MEMORY / 2));
		expect_read(&pair, region_target(&region, 100, SIDE_MEMORY / 2));
		ck_dat(dat_lmr_free(region.lmr));
	}
	pair_disconnect(&pair, DAT_CLOSE_GRACEFUL_FLAG);
	pair_close(&pair);
}
END_TEST

/* ---- regions derived from regions ---- */

/* The length is ignored: the derived region covers its source. */
static DAT_RETURN try_derive(const struct side *side, const struct region *source,
			     DAT_MEM_PRIV_FLAGS priv, struct region *region)
{
	const DAT_REGION_DESCRIPTION what = { .for_lmr_handle = source->lmr };

	region->at = source->at;
	region->size = source->size;
	return region_try(side, DAT_MEM_TYPE_LMR, what, 12345, priv, region);
}

START_TEST(derived_region_outlives_its_source)
{
	struct region source, derived = { .lmr = NULL };
	DAT_LMR_PARAM param;

	pair_open(&pair, NULL);
	source = region_with(&pair.server, DAT_MEM_PRIV_ALL_FLAG);
	ck_dat(try_derive(&pair.server, &source, DAT_MEM_PRIV_READ_FLAG, &derived));
	ck_assert_uint_ne(derived.lmr_context, source.lmr_context);
	ck_assert_uint_ne(derived.rmr_context, source.rmr_context);
	ck_dat(dat_lmr_query(derived.lmr, DAT_LMR_FIELD_ALL, &param));
	ck_assert_int_eq(param.mem_type, DAT_MEM_TYPE_LMR);
	ck_assert_ptr_eq(param.region_desc.for_lmr_handle, source.lmr);
	ck_assert_uint_eq(param.length, SIDE_MEMORY);
	ck_assert_uint_eq(param.registered_address, (uintptr_t)source.at);
	ck_assert_uint_eq(param.registered_size, SIDE_MEMORY);
	expect_read(&pair, region_target(&derived, 100, 64));
	expect_write_refused(&pair, region_target(&derived, 100, 64)); /* only the source permits */
	expect_write(&pair, region_target(&source, 100, 64));
	ck_dat(dat_lmr_free(source.lmr));
	expect_write_refused(&pair, region_target(&source, 100, 64));
	expect_read(&pair, region_target(&derived, 100, 64));
	ck_dat(dat_lmr_free(derived.lmr));
	pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_close(&pair);
}
END_TEST

START_TEST(derived_region_has_its_own_zone_and_privileges)
{
	struct region source, derived = { .lmr = NULL };
	struct side other;

	pair_open(&pair, NULL);
	side_copy_in_new_zone(&other, &pair.server);
	source = region_with(&other, DAT_MEM_PRIV_LOCAL_READ_FLAG);
	ck_dat(try_derive(&pair.server, &source, DAT_MEM_PRIV_ALL_FLAG, &derived));
	expect_write(&pair, region_target(&derived, 100, 64));
	ck_dat(dat_lmr_free(derived.lmr));
	ck_dat(try_derive(&other, &source, DAT_MEM_PRIV_ALL_FLAG, &derived));
	expect_write_refused(&pair, region_target(&derived, 100, 64));
	ck_dat(dat_lmr_free(derived.lmr));
	ck_dat(dat_lmr_free(source.lmr));
	ck_dat(dat_lmr_free(other.lmr));
	ck_dat(dat_pz_free(other.pz));
	pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_close(&pair);
}
END_TEST

START_TEST(writes_reach_a_derived_region_whose_source_is_freed)
{
	const struct side *server = &pair.server;
	struct region source, derived;
	DAT_REGION_DESCRIPTION what;
	DAT_VADDR address;
	DAT_VLEN size;

	pair_open(&pair, NULL);
	source = region_with(server, DAT_MEM_PRIV_LOCAL_READ_FLAG);
	derived = source;
	what.for_lmr_handle = source.lmr;
	ck_dat(LMR_CREATE(server->ia, DAT_MEM_TYPE_LMR, what, 12345, server->pz,
			  DAT_MEM_PRIV_ALL_FLAG, &derived.lmr, &derived.lmr_context,
			  &derived.rmr_context, &size, &address));
	ck_assert_uint_ne(derived.lmr_context, source.lmr_context);
	ck_assert_uint_eq(address, (uintptr_t)source.at);
	ck_assert_uint_eq(size, source.size);
	ck_dat(dat_lmr_free(source.lmr));
	expect_write(&pair, region_target(&derived, 0, PAGE));
	expect_read(&pair, region_target(&derived, 0, PAGE));
	ck_dat(dat_lmr_free(derived.lmr));
	pair_disconnect(&pair, DAT_CLOSE_ABRUPT_FLAG);
	pair_close(&pair);
}
END_TEST

START_TEST(freed_region_is_no_source)
{
	struct region source, derived = { .lmr = NULL };

	pair_open_unconnected(&pair, NULL);
	source = region_with(&pair.server, DAT_MEM_PRIV_ALL_FLAG);
	ck_dat(dat_lmr_free(source.lmr));
	ck_dat_is(try_derive(&pair.server, &source, DAT_MEM_PRIV_READ_FLAG, &derived),
		  BAD_HANDLE(LMR));
	pair_close(&pair);
}
END_TEST

void add_memory_cases(TCase *tcase)
{
	const struct device_case cases[] = {
		{ zone_in_use_is_not_freed, NEEDS_NOTHING },
		{ send_from_another_zone_is_refused, NEEDS_NOTHING },
		{ all_outputs_but_the_handle_are_optional, NEEDS_NOTHING },
		{ invalid_argument_is_identified, NEEDS_NOTHING },
		{ unmapped_and_read_only_pages_are_refused, NEEDS_PINNING },
		{ memlock_limit_is_reported, NEEDS_MEMLOCK },
		{ freed_region_refuses_reads, NEEDS_NOTHING },
		{ cookie_shares_memory_between_processes, NEEDS_NOTHING },
		{ cookie_names_one_object, NEEDS_NOTHING },
		{ private_memory_has_no_cookie, NEEDS_NOTHING },
		{ receive_needs_local_write, NEEDS_NOTHING },
		{ read_needs_local_write, NEEDS_NOTHING },
		{ region_without_remote_write_refuses_writes, NEEDS_NOTHING },
		{ region_without_remote_read_refuses_reads, NEEDS_READ_RIGHTS },
		{ rmr_context_comes_with_remote_privileges, NEEDS_NOTHING },
		{ last_byte_of_a_write_is_placed_last, NEEDS_NOTHING },
		{ derived_region_outlives_its_source, NEEDS_NOTHING },
		{ derived_region_has_its_own_zone_and_privileges, NEEDS_NOTHING },
		{ writes_reach_a_derived_region_whose_source_is_freed, NEEDS_NOTHING },
		{ freed_region_is_no_source, NEEDS_NOTHING },
	};

	add_device_cases(tcase, cases, COUNT(cases));
	tcase_add_loop_test(tcase, unaligned_range_registers_repeatedly, 0, COUNT(small_sizes));
	tcase_add_loop_test(tcase, relaxed_ordering_keeps_completed_transfers_visible, 0, 2);
}
