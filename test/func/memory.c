/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registered memory: what can be registered, what a device then reaches, and what becomes of it
 * when a parent goes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>
#include <rdma/ib_user_ioctl_verbs.h>

#include "peer.h"

#define PAGE ((size_t)4096)

/* Names of shared memory. */
static const char cookie_one[DAT_LMR_COOKIE_SIZE] = "forty\0bytes, all of which are compared1";
static const char cookie_two[DAT_LMR_COOKIE_SIZE] = "forty\0bytes, all of which are compared2";

static DAT_RETURN try_register(const struct side *side, void *at, size_t size,
			       DAT_MEM_PRIV_FLAGS priv)
{
	DAT_REGION_DESCRIPTION region = { .for_va = at };
	DAT_LMR_HANDLE lmr = (DAT_LMR_HANDLE)1;
	DAT_RETURN ret;

	ret = dat_lmr_create(side->ia, DAT_MEM_TYPE_VIRTUAL, region, size, side->pz, priv, &lmr,
			     NULL, NULL, NULL, NULL);
	if (ret == DAT_SUCCESS)
		must(dat_lmr_free(lmr));
	else
		ck_assert_ptr_eq(lmr, (DAT_LMR_HANDLE)1);
	return ret;
}

/* Any type, over the same shared pages; @source is a region of them all without a right. */
static DAT_RETURN any_register(const struct side *side, DAT_MEM_TYPE type, void *at,
			       DAT_LMR_HANDLE source, size_t size, DAT_MEM_PRIV_FLAGS priv,
			       DAT_LMR_HANDLE *lmr)
{
	DAT_REGION_DESCRIPTION region = { .for_va = at };

	if (type == DAT_MEM_TYPE_LMR)
		region.for_lmr_handle = source;
	else if (type == DAT_MEM_TYPE_SHARED_VIRTUAL)
		region.for_shared_memory.shared_memory_id = (DAT_LMR_COOKIE)cookie_one;
	return dat_lmr_create(side->ia, type, region, size, side->pz, priv, lmr, NULL, NULL, NULL,
			      NULL);
}

/* All privileges. Shared memory goes by a name of its own. */
static struct memory region_make(const struct side *side, unsigned char *at, size_t size,
				 bool shared)
{
	static char name[DAT_LMR_COOKIE_SIZE] = "a huge page";
	struct memory memory = { .at = at, .size = size };
	DAT_REGION_DESCRIPTION region = { .for_shared_memory = { at, shared ? &name : NULL } };
	DAT_VADDR address;
	DAT_VLEN length;

	must(dat_lmr_create(side->ia, shared ? DAT_MEM_TYPE_SHARED_VIRTUAL : DAT_MEM_TYPE_VIRTUAL,
			    region, size, side->pz, DAT_MEM_PRIV_ALL_FLAG, &memory.lmr,
			    &memory.local, &memory.remote, &length, &address));
	ck_assert_uint_eq(address, (uintptr_t)at);
	ck_assert_uint_eq(length, size);
	return memory;
}

/* All of far, from near and back again. */
static void write_and_read(struct pair *pair, const struct memory *near, const struct memory *far)
{
	unsigned char *copy = malloc(far->size);

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, near->at, far->size);
	write_post(pair->near.ep, 1, seg(near, 0, far->size), target(far, 0, far->size),
		   DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(pair->near.requests, pair->near.ep, 1, DAT_DTO_SUCCESS, far->size);
	memset(near->at, UNTOUCHED, far->size);
	/* behind a write, a read finds what that wrote */
	read_post(pair->near.ep, 2, seg(near, 0, far->size), target(far, 0, far->size),
		  DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(pair->near.requests, pair->near.ep, 2, DAT_DTO_SUCCESS, far->size);
	ck_assert_mem_eq(near->at, copy, far->size);
	ck_assert_mem_eq(far->at, copy, far->size);
	free(copy);
}

START_TEST(any_range_any_number_of_times)
{
	DAT_LMR_CONTEXT context[2];
	DAT_RMR_CONTEXT remote[2];
	DAT_REGION_DESCRIPTION region;
	DAT_LMR_HANDLE lmr[2];
	DAT_LMR_PARAM param;
	DAT_VADDR address;
	struct side side;
	DAT_VLEN size;
	char *at;

	side_open(&side, 0);
	at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	region.for_va = at + 4093;
	for (int i = 0; i < 2; i++) {
		must(dat_lmr_create(side.ia, DAT_MEM_TYPE_VIRTUAL, region, 5, side.pz,
				    DAT_MEM_PRIV_ALL_FLAG, &lmr[i], &context[i], &remote[i], &size,
				    &address));
		ck_assert_uint_le(address, (uintptr_t)region.for_va);
		ck_assert_uint_ge(address + size, (uintptr_t)region.for_va + 5);
	}
	ck_assert_uint_ne(context[0], context[1]);
	ck_assert_uint_ne(remote[0], remote[1]);
	must(dat_lmr_query(lmr[1], DAT_LMR_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.region_desc.for_va, region.for_va);
	ck_assert_uint_eq(param.length, 5);
	ck_assert_uint_eq(param.lmr_context, context[1]);
	ck_assert_uint_eq(param.rmr_context, remote[1]);
	ck_assert_int_eq(param.mem_priv, DAT_MEM_PRIV_ALL_FLAG);
	ck_assert_ptr_eq(param.pz_handle, side.pz);
	ck_assert_ptr_eq(param.ia_handle, side.ia);
	returns(BAD_STATE(PZ_IN_USE), dat_pz_free(side.pz));
	must(dat_lmr_free(lmr[0]));
	returns(BAD_HANDLE(_LMR), dat_lmr_free(lmr[0]));
	returns(BAD_HANDLE(_LMR), dat_lmr_query(lmr[0], DAT_LMR_FIELD_ALL, &param));
	must(dat_lmr_free(lmr[1]));
	must(dat_pz_free(side.pz));
	returns(BAD_HANDLE(_PZ), dat_pz_free(side.pz));
	side_close(&side);
}
END_TEST

START_TEST(what_cannot_be_registered)
{
	struct side side;
	char *hole, *constant;

	side_open(&side, 0);
	constant = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* in this order: a later mapping might fill the hole */
	hole = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(hole + PAGE, PAGE);
	returns(BAD_ARG(4), try_register(&side, hole, 0, DAT_MEM_PRIV_ALL_FLAG));
	returns(BAD_ARG(3), try_register(&side, NULL, PAGE, DAT_MEM_PRIV_ALL_FLAG));
	returns(BAD_ARG(6), try_register(&side, hole, PAGE, (DAT_MEM_PRIV_FLAGS)0x40));
	returns(BAD_ARG(4), try_register(&side, hole, SIZE_MAX, DAT_MEM_PRIV_ALL_FLAG));
	returns(BAD_ARG(4),
		try_register(&side, hole, SIZE_MAX - (uintptr_t)hole + 2, DAT_MEM_PRIV_ALL_FLAG));
	returns(BAD_ARG(3),
		try_register(&side, hole, SIZE_MAX - (uintptr_t)hole + 1, DAT_MEM_PRIV_READ_FLAG));
	returns(BAD_ARG(3), try_register(&side, hole, 3 * PAGE, DAT_MEM_PRIV_ALL_FLAG));
	returns(BAD_ARG(3),
		/* nothing of it is there */
		try_register(&side, hole + PAGE, PAGE, DAT_MEM_PRIV_READ_FLAG));
	returns(BAD_ARG(3),
		/* all but a byte at its end */
		try_register(&side, hole + PAGE - 1, 2, DAT_MEM_PRIV_READ_FLAG));
	/* or at its start */
	returns(BAD_ARG(3), try_register(&side, hole + 2 * PAGE - 1, 2, DAT_MEM_PRIV_READ_FLAG));
	returns(FAILS(PRIVILEGES_VIOLATION, PRIVILEGES_WRITE),
		try_register(&side, constant, PAGE, DAT_MEM_PRIV_ALL_FLAG));
	must(try_register(&side, constant, PAGE, DAT_MEM_PRIV_READ_FLAG));
	must(try_register(&side, hole, PAGE, DAT_MEM_PRIV_NONE_FLAG));
	must(try_register(&side, hole, PAGE, DAT_MEM_PRIV_REMOTE_WRITE_FLAG));
	side_close(&side);
}
END_TEST

/* Files that are mapped to be read only. */
START_TEST(constant_files)
{
	static const int flags[] = { MAP_PRIVATE, MAP_SHARED };
	const DAT_RETURN no_writing = FAILS(PRIVILEGES_VIOLATION, PRIVILEGES_WRITE);
	const int fd = open("/proc/self/exe", O_RDONLY);
	struct side side;

	side_open(&side, 0);
	for (size_t i = 0; i < COUNT(flags); i++) {
		void *at = mmap(NULL, PAGE, PROT_READ, flags[i], fd, 0);
		DAT_RETURN ret;

		ck_assert_ptr_ne(at, MAP_FAILED);
		returns(no_writing, try_register(&side, at, PAGE, DAT_MEM_PRIV_LOCAL_WRITE_FLAG));
		returns(no_writing, try_register(&side, at, PAGE, DAT_MEM_PRIV_REMOTE_WRITE_FLAG));
		ret = try_register(&side, at, PAGE, DAT_MEM_PRIV_READ_FLAG);
		/*
		 * before Linux 6.2 the kernel asks to write whatever it pins, which only a copy of
		 * a file allows
		 */
		if (flags[i] == MAP_PRIVATE || ret != BAD_ARG(3))
			must(ret);
	}
	side_close(&side);
}
END_TEST

/* All of one huge page, and a part of it; of this process alone, or shared under a name. */
START_TEST(huge_pages)
{
	static const int flags[] = { MAP_PRIVATE, MAP_SHARED };
	const size_t size = (size_t)2 << 20;
	struct pair pair;
	struct memory near;

	pair_open(&pair, NULL);
	near = memory_make(&pair.near, size, DAT_MEM_PRIV_ALL_FLAG);
	for (unsigned i = 0; i < COUNT(flags); i++) {
		unsigned char *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
					 flags[i] | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
		struct memory whole, part;

		ck_assert_ptr_ne(at, MAP_FAILED);
		memset(at, UNTOUCHED, size);
		whole = region_make(&pair.far, at, size, flags[i] == MAP_SHARED);
		part = region_make(&pair.far, at + size - PAGE - 1, PAGE, false);
		pattern_fill(near.at, size, i);
		write_and_read(&pair, &near, &part);
		bytes_check(at, size - PAGE - 1, UNTOUCHED);
		bytes_check(at + size - 1, 1, UNTOUCHED);
		write_and_read(&pair, &near, &whole);
		must(dat_lmr_free(part.lmr));
		must(dat_lmr_free(whole.lmr));
		ck_assert_int_eq(munmap(at, size), 0);
	}
	pair_close(&pair);
}
END_TEST

/* Who may pin all is not held to the limit. */
static void give_up_pinning_all(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	ck_assert_int_eq(syscall(SYS_capget, &header, data), 0);
	data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
	ck_assert_int_eq(syscall(SYS_capset, &header, data), 0);
}

/* The message that a refusal is logged with goes to @file from here on. */
static void errors_to(FILE *file)
{
	fflush(stderr);
	ck_assert_int_ge(dup2(fileno(file), STDERR_FILENO), 0);
}

/*
 * The device's words for "too much" and for "none at all" differ; ours do not, but for the number.
 */
START_TEST(beyond_the_limit_of_locked_memory)
{
	static const struct {
		rlim_t limit;
		const char *text;
	} cases[] = { { 1 << 20, "RLIMIT_MEMLOCK is 1024 KiB" }, { 0, "RLIMIT_MEMLOCK is 0 KiB" } };
	struct side side;
	char *at;

	side_open(&side, 0);
	at = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(at, MAP_FAILED);
	give_up_pinning_all();
	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct rlimit limit = { cases[i].limit, cases[i].limit };
		char said[4096] = "";
		FILE *log = tmpfile();
		int errors = dup(STDERR_FILENO);

		ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
		errors_to(log);
		returns(FAILS(INSUFFICIENT_RESOURCES, RESOURCE_MEMORY_REGION),
			try_register(&side, at, 4 << 20, DAT_MEM_PRIV_ALL_FLAG));
		ck_assert_int_ge(dup2(errors, STDERR_FILENO), 0);
		rewind(log);
		ck_assert_uint_gt(fread(said, 1, sizeof(said) - 1, log), 0);
		ck_assert_ptr_nonnull(strstr(said, cases[i].text));
		ck_assert_ptr_nonnull(strstr(said, "ulimit -l"));
		ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1); /* one line */
		if (cases[i].limit)
			must(try_register(&side, at, PAGE, DAT_MEM_PRIV_ALL_FLAG));
	}
	side_close(&side);
}
END_TEST

/* Whoever can pin next to nothing hears of it before he fails. */
START_TEST(a_limit_that_is_too_low_to_begin_with)
{
	const struct rlimit limit = { 64 << 10, 64 << 10 };
	static char said[4096];
	struct side side;
	FILE *log = tmpfile();
	int errors = dup(STDERR_FILENO);

	give_up_pinning_all();
	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	errors_to(log);
	side_open(&side, 0);
	ck_assert_int_ge(dup2(errors, STDERR_FILENO), 0);
	rewind(log);
	ck_assert_uint_gt(fread(said, 1, sizeof(said) - 1, log), 0);
	ck_assert_ptr_nonnull(strstr(said, "RLIMIT_MEMLOCK"));
	ck_assert_ptr_nonnull(strstr(said, "soft limit 64 KiB"));
	ck_assert_ptr_nonnull(strstr(said, "ulimit -l"));
	ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1); /* one line */
	side_close(&side);
}
END_TEST

START_TEST(a_peer_reads_constant_memory)
{
	DAT_REGION_DESCRIPTION region;
	struct memory near, constant = { .size = PAGE };
	struct pair pair;

	pair_open(&pair, NULL);
	near = memory_make(&pair.near, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	constant.at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pattern_fill(constant.at, PAGE, 9);
	mprotect(constant.at, PAGE, PROT_READ);
	region.for_va = constant.at;
	must(dat_lmr_create(pair.far.ia, DAT_MEM_TYPE_VIRTUAL, region, PAGE, pair.far.pz,
			    DAT_MEM_PRIV_READ_FLAG, &constant.lmr, &constant.local,
			    &constant.remote, NULL, NULL));
	read_post(pair.near.ep, 1, seg(&near, 0, PAGE), target(&constant, 0, PAGE),
		  DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(pair.near.requests, pair.near.ep, 1, DAT_DTO_SUCCESS, PAGE);
	pattern_check(near.at, PAGE, 9);
	pair_close(&pair);
}
END_TEST

/* Its own privileges and zone over the parent's range, and a life of its own. */
START_TEST(regions_over_regions)
{
	DAT_REGION_DESCRIPTION region;
	struct memory parent, child, near;
	DAT_VADDR address;
	struct pair pair;
	DAT_VLEN size;

	pair_open(&pair, NULL);
	near = memory_make(&pair.near, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	parent = memory_make(&pair.far, PAGE, DAT_MEM_PRIV_LOCAL_READ_FLAG);
	child = parent;
	region.for_lmr_handle = parent.lmr;
	must(dat_lmr_create(pair.far.ia, DAT_MEM_TYPE_LMR, region, 12345, pair.far.pz,
			    DAT_MEM_PRIV_ALL_FLAG, &child.lmr, &child.local, &child.remote, &size,
			    &address));
	ck_assert_uint_ne(child.local, parent.local);
	ck_assert_uint_eq(address, (uintptr_t)parent.at);
	ck_assert_uint_eq(size, PAGE);
	must(dat_lmr_free(parent.lmr));
	pattern_fill(near.at, PAGE, 4);
	write_post(pair.near.ep, 1, seg(&near, 0, PAGE), target(&child, 0, PAGE),
		   DAT_COMPLETION_DEFAULT_FLAG);
	read_post(pair.near.ep, 2, seg(&near, 0, PAGE), target(&child, 0, PAGE),
		  DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(pair.near.requests, pair.near.ep, 1, DAT_DTO_SUCCESS, PAGE);
	dto_wait(pair.near.requests, pair.near.ep, 2, DAT_DTO_SUCCESS, PAGE);
	pattern_check(parent.at, PAGE, 4);
	region.for_lmr_handle = parent.lmr;
	returns(BAD_HANDLE(_LMR),
		dat_lmr_create(pair.far.ia, DAT_MEM_TYPE_LMR, region, PAGE, pair.far.pz,
			       DAT_MEM_PRIV_ALL_FLAG, &child.lmr, NULL, NULL, NULL, NULL));
	pair_close(&pair);
}
END_TEST

/*
 * near tries what it may not touch: it gets no byte, and loses the connection, which then is made
 * anew.
 */
static void refused(struct pair *pair, const struct memory *near, bool read, DAT_RMR_TRIPLET bad)
{
	const DAT_DTO_COMPLETION_EVENT_DATA *dto;
	DAT_EVENT event;

	memset(near->at, 1, near->size);
	if (read)
		read_post(pair->near.ep, 4, seg(near, 0, bad.segment_length), bad,
			  DAT_COMPLETION_DEFAULT_FLAG);
	else
		write_post(pair->near.ep, 4, seg(near, 0, bad.segment_length), bad,
			   DAT_COMPLETION_DEFAULT_FLAG);
	ended_wait(pair->near.connects, pair->near.ep);
	ended_wait(pair->far.connects, pair->far.ep);
	event = event_wait(pair->near.requests, DAT_DTO_COMPLETION_EVENT);
	dto = &event.event_data.dto_completion_event_data;
	ck_assert_uint_eq(dto->user_cookie.as_64, 4);
	if (device_has(NEEDS_REMOTE_STATUS))
		ck_assert_int_eq(dto->status, DAT_DTO_ERR_REMOTE_ACCESS);
	else if (read)
		ck_assert_int_ne(dto->status, DAT_DTO_SUCCESS);
	bytes_check(near->at, near->size, 1);
	must(dat_ep_reset(pair->near.ep));
	must(dat_ep_reset(pair->far.ep));
	pair_connect(pair);
}

/* A child of all-powerful memory: who may read it may not write. */
START_TEST(a_derived_region_has_its_own_rights)
{
	DAT_REGION_DESCRIPTION region;
	struct memory parent, child, near;
	struct pair pair;

	pair_open(&pair, NULL);
	near = memory_make(&pair.near, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	parent = memory_make(&pair.far, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	child = parent;
	region.for_lmr_handle = parent.lmr;
	must(dat_lmr_create(pair.far.ia, DAT_MEM_TYPE_LMR, region, 0, pair.far.pz,
			    DAT_MEM_PRIV_READ_FLAG, &child.lmr, &child.local, &child.remote, NULL,
			    NULL));
	read_post(pair.near.ep, 1, seg(&near, 0, PAGE), target(&child, 0, PAGE),
		  DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(pair.near.requests, pair.near.ep, 1, DAT_DTO_SUCCESS, PAGE);
	refused(&pair, &near, false, target(&child, 0, PAGE));
	bytes_check(parent.at, PAGE, UNTOUCHED);
	pair_close(&pair);
}
END_TEST

/*
 * A region that begins shortly before the end of a page and ends shortly behind the beginning of
 * the next but one.
 */
#define BEFORE (PAGE - 5)
#define LENGTH (PAGE + 12)

static const struct reach {
	int offset; /* from the region's first byte */
	size_t length;
	bool reached;
} reaches[] = {
	{ 0, LENGTH, true },	  /* all of it */
	{ 0, 1, true },		  /* its first byte */
	{ LENGTH - 1, 1, true },  /* its last one */
	{ -1, 1, false },	  /* the one before */
	{ -1, 2, false },	  /* and the first */
	{ -1, LENGTH, false },	  /* all but the last, too */
	{ LENGTH, 1, false },	  /* the one behind */
	{ LENGTH - 1, 2, false }, /* and the last */
	{ 1, LENGTH, false },	  /* all but the first, too */
	{ 0, LENGTH + 1, false }, /* one more than all */
};

START_TEST(all_its_bytes_and_no_other)
{
	unsigned char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct memory near, far;
	struct pair pair;

	ck_assert_ptr_ne(pages, MAP_FAILED);
	pair_open(&pair, NULL);
	near = memory_make(&pair.near, 3 * PAGE, DAT_MEM_PRIV_ALL_FLAG);
	far = region_make(&pair.far, pages + BEFORE, LENGTH, false);
	for (size_t i = 0; i < COUNT(reaches); i++) {
		struct memory part = far;

		part.at += reaches[i].offset;
		part.size = reaches[i].length;
		memset(pages, UNTOUCHED, 3 * PAGE);
		if (reaches[i].reached) {
			pattern_fill(near.at, near.size, (unsigned)i);
			write_and_read(&pair, &near, &part);
			memset(part.at, UNTOUCHED, part.size);
		} else {
			refused(&pair, &near, false, target(&part, 0, part.size));
			refused(&pair, &near, true, target(&part, 0, part.size));
		}
		bytes_check(pages, 3 * PAGE, UNTOUCHED);
	}
	pair_close(&pair);
}
END_TEST

/* A region of the same bytes lives all the while. */
START_TEST(other_keys_open_nothing)
{
	struct memory near, alive, freed, mute, stranger;
	struct pair pair;
	struct side other;
	DAT_RMR_TRIPLET bad[4];

	pair_open(&pair, NULL);
	near = memory_make(&pair.near, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	alive = memory_make(&pair.far, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	other = pair.far;
	must(dat_pz_create(other.ia, &other.pz));
	stranger = region_make(&other, alive.at, PAGE, false);
	freed = region_make(&pair.far, alive.at, PAGE, false);
	must(dat_lmr_free(freed.lmr));
	mute = memory_make(
		&pair.far, PAGE,
		(DAT_MEM_PRIV_FLAGS)(DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG));
	bad[0] = target(&freed, 0, 8);
	bad[1] = target(&stranger, 0, 8);
	bad[2] = target(&mute, 0, 8);
	bad[3] = target(&alive, 0, 8);
	bad[3].rmr_context ^= 0x00ffff00;
	for (size_t i = 0; i < COUNT(bad); i++) {
		refused(&pair, &near, false, bad[i]);
		refused(&pair, &near, true, bad[i]);
	}
	bytes_check(alive.at, PAGE, UNTOUCHED);
	bytes_check(mute.at, PAGE, UNTOUCHED);
	write_and_read(&pair, &near, &alive);
	pair_close(&pair);
}
END_TEST

static struct memory derive(const struct side *side, const struct memory *source,
			    DAT_MEM_PRIV_FLAGS priv)
{
	const DAT_REGION_DESCRIPTION region = { .for_lmr_handle = source->lmr };
	struct memory derived = *source;

	must(dat_lmr_create(side->ia, DAT_MEM_TYPE_LMR, region, 1, side->pz, priv, &derived.lmr,
			    &derived.local, &derived.remote, NULL, NULL));
	return derived;
}

/* Three generations over the same bytes. Whoever is left serves, and who was freed does not. */
START_TEST(generations_go_in_any_order)
{
	static const unsigned orders[][3] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 0, 2 }, { 1, 2, 0 } };
	struct memory near, all[3];
	struct pair pair;

	pair_open(&pair, NULL);
	near = memory_make(&pair.near, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	for (size_t i = 0; i < COUNT(orders); i++) {
		all[0] = memory_make(&pair.far, PAGE, DAT_MEM_PRIV_ALL_FLAG);
		all[1] = derive(&pair.far, &all[0], DAT_MEM_PRIV_ALL_FLAG);
		all[2] = derive(&pair.far, &all[1], DAT_MEM_PRIV_ALL_FLAG);
		for (size_t gone = 0; gone < 3; gone++) {
			for (size_t left = gone; left < 3; left++) {
				pattern_fill(near.at, PAGE, (unsigned)(i + left));
				write_and_read(&pair, &near, &all[orders[i][left]]);
			}
			must(dat_lmr_free(all[orders[i][gone]].lmr));
			refused(&pair, &near, gone % 2, target(&all[orders[i][gone]], 0, PAGE));
		}
		munmap(all[0].at, PAGE);
	}
	pair_close(&pair);
}
END_TEST

/*
 * The bytes are those of the source, the zone is not: who reaches one region does not reach the
 * other.
 */
START_TEST(a_derived_region_has_its_own_zone)
{
	struct memory near, parent, child;
	struct pair pair, other;

	pair_open(&pair, NULL);
	near = memory_make(&pair.near, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	parent = memory_make(&pair.far, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	other = pair;
	must(dat_pz_create(other.far.ia, &other.far.pz));
	child = derive(&other.far, &parent, DAT_MEM_PRIV_ALL_FLAG);
	other.near.ep = ep_make(&other.near, NULL);
	other.far.ep = ep_make(&other.far, NULL);
	pair_connect(&other);
	pattern_fill(near.at, PAGE, 1);
	write_and_read(&pair, &near, &parent);
	pattern_fill(near.at, PAGE, 2);
	write_and_read(&other, &near, &child);
	refused(&pair, &near, false, target(&child, 0, PAGE));
	refused(&other, &near, false, target(&parent, 0, PAGE));
	pattern_check(parent.at, PAGE, 2);
	must(dat_lmr_free(parent.lmr));
	must(dat_ep_free(pair.far.ep));
	must(dat_pz_free(pair.far.pz));
	write_and_read(&other, &near, &child);
	pair_close(&pair);
}
END_TEST

/*
 * What the source may not have been asked for can be had, but not what the memory itself refuses.
 */
START_TEST(derived_from_constant_memory)
{
	DAT_REGION_DESCRIPTION region;
	DAT_LMR_HANDLE child = DAT_HANDLE_NULL;
	struct memory parent;
	struct side side;

	side_open(&side, 0);
	parent = memory_make(&side, PAGE, DAT_MEM_PRIV_NONE_FLAG);
	ck_assert_int_eq(mprotect(parent.at, PAGE, PROT_READ), 0);
	region.for_lmr_handle = parent.lmr;
	returns(FAILS(PRIVILEGES_VIOLATION, PRIVILEGES_WRITE),
		dat_lmr_create(side.ia, DAT_MEM_TYPE_LMR, region, PAGE, side.pz,
			       DAT_MEM_PRIV_REMOTE_WRITE_FLAG, &child, NULL, NULL, NULL, NULL));
	ck_assert_ptr_null(child);
	must(dat_lmr_free(derive(&side, &parent, DAT_MEM_PRIV_READ_FLAG).lmr));
	/* it stays registered, and its bytes are gone */
	ck_assert_int_eq(munmap(parent.at, PAGE), 0);
	returns(BAD_ARG(3), dat_lmr_create(side.ia, DAT_MEM_TYPE_LMR, region, PAGE, side.pz,
					   DAT_MEM_PRIV_READ_FLAG, &child, NULL, NULL, NULL, NULL));
	must(dat_lmr_free(parent.lmr));
	side_close(&side);
}
END_TEST

/* ---- what the device is asked for ---- */

struct ibv_mr;
struct ibv_pd;
__attribute__((visibility("default"))) struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *at,
								       size_t size, uint64_t iova,
								       unsigned access);
typedef struct ibv_mr *(*registration)(struct ibv_pd *pd, void *at, size_t size, uint64_t iova,
				       unsigned access);

static _Thread_local unsigned access_seen; /* of the latest registration */

/* The provider finds this one before that of libibverbs. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *at, size_t size, uint64_t iova,
				unsigned access)
{
	static _Thread_local registration real;

	if (!real)
		real = (registration)dlsym(dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD),
					   "ibv_reg_mr_iova2");
	access_seen = access;
	return real(pd, at, size, iova, access);
}

#define A(what) IB_UVERBS_ACCESS_##what
#define P(what) DAT_MEM_PRIV_##what##_FLAG

/* For an adapter opened under its name, or under that with the prefix. */
static const struct {
	bool aware;
	DAT_MEM_TYPE type;
	unsigned priv, access;
} asked[] = {
	{ false, DAT_MEM_TYPE_VIRTUAL, P(NONE), 0 },
	{ false, DAT_MEM_TYPE_VIRTUAL, P(LOCAL_READ), 0 },
	{ false, DAT_MEM_TYPE_VIRTUAL, P(LOCAL_WRITE), A(LOCAL_WRITE) },
	{ false, DAT_MEM_TYPE_VIRTUAL, P(REMOTE_READ), A(REMOTE_READ) },
	{ false, DAT_MEM_TYPE_VIRTUAL, P(REMOTE_WRITE), A(REMOTE_WRITE) | A(LOCAL_WRITE) },
	{ false, DAT_MEM_TYPE_VIRTUAL, P(ALL), A(REMOTE_WRITE) | A(REMOTE_READ) | A(LOCAL_WRITE) },
	{ false, DAT_MEM_TYPE_SO_VIRTUAL, P(READ), A(REMOTE_READ) },
	{ false, DAT_MEM_TYPE_SHARED_VIRTUAL, P(READ), A(REMOTE_READ) },
	{ false, DAT_MEM_TYPE_LMR, P(READ), A(REMOTE_READ) },
	{ true, DAT_MEM_TYPE_VIRTUAL, P(READ), A(REMOTE_READ) | A(RELAXED_ORDERING) },
	{ true, DAT_MEM_TYPE_SO_VIRTUAL, P(READ), A(REMOTE_READ) },
	{ true, DAT_MEM_TYPE_SHARED_VIRTUAL, P(READ), A(REMOTE_READ) },
	{ true, DAT_MEM_TYPE_LMR, P(READ), A(REMOTE_READ) },
};

#undef A
#undef P

static void aware_name(char name[DAT_NAME_MAX_LENGTH])
{
	snprintf(name, DAT_NAME_MAX_LENGTH, "RO_AWARE_%s", ia_name(0, BY_INTERFACE));
}

START_TEST(rights_and_order_reach_the_device)
{
	struct side plain, aware;
	DAT_LMR_HANDLE source, lmr;
	char name[DAT_NAME_MAX_LENGTH];
	void *at;

	aware_name(name);
	side_open(&plain, 0);
	side_open_as(&aware, name, false);
	at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < COUNT(asked); i++) {
		const struct side *side = asked[i].aware ? &aware : &plain;

		must(any_register(side, DAT_MEM_TYPE_VIRTUAL, at, NULL, PAGE,
				  DAT_MEM_PRIV_NONE_FLAG, &source));
		access_seen = ~0u;
		must(any_register(side, asked[i].type, at, source, PAGE,
				  (DAT_MEM_PRIV_FLAGS)asked[i].priv, &lmr));
		ck_assert_uint_eq(access_seen & ~(unsigned)IB_UVERBS_ACCESS_MW_BIND,
				  asked[i].access);
		must(dat_lmr_free(lmr));
		must(dat_lmr_free(source));
	}
	side_close(&plain);
	side_close(&aware);
}
END_TEST

START_TEST(strictly_ordered_memory)
{
	DAT_REGION_DESCRIPTION region;
	struct memory near, far;
	struct pair pair;
	char name[DAT_NAME_MAX_LENGTH];

	aware_name(name); /* it opens the same adapter */
	side_open_as(&pair.far, name, false);
	side_open(&pair.near, 1);
	pair.near.ep = ep_make(&pair.near, NULL);
	pair.far.ep = ep_make(&pair.far, NULL);
	pair_connect(&pair);
	say_hello(&pair);
	near = memory_make(&pair.near, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	far = memory_make(&pair.far, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	must(dat_lmr_free(far.lmr));
	region.for_va = far.at;
	must(dat_lmr_create(pair.far.ia, DAT_MEM_TYPE_SO_VIRTUAL, region, PAGE, pair.far.pz,
			    DAT_MEM_PRIV_ALL_FLAG, &far.lmr, &far.local, &far.remote, NULL, NULL));
	pattern_fill(near.at, PAGE, 5);
	write_post(pair.near.ep, 1, seg(&near, 0, PAGE), target(&far, 0, PAGE),
		   DAT_COMPLETION_DEFAULT_FLAG);
	read_post(pair.near.ep, 2, seg(&near, 0, PAGE), target(&far, 0, PAGE),
		  DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(pair.near.requests, pair.near.ep, 1, DAT_DTO_SUCCESS, PAGE);
	dto_wait(pair.near.requests, pair.near.ep, 2, DAT_DTO_SUCCESS, PAGE);
	pattern_check(far.at, PAGE, 5);
	pair_close(&pair);
}
END_TEST

/* ---- memory of several processes ---- */

static DAT_RETURN shared_register(const struct side *side, void *at, const char *name,
				  struct memory *memory)
{
	DAT_REGION_DESCRIPTION region;

	region.for_shared_memory.virtual_address = at;
	region.for_shared_memory.shared_memory_id = (DAT_LMR_COOKIE)name;
	memory->at = at;
	memory->size = PAGE;
	return dat_lmr_create(side->ia, DAT_MEM_TYPE_SHARED_VIRTUAL, region, PAGE, side->pz,
			      DAT_MEM_PRIV_ALL_FLAG, &memory->lmr, &memory->local, &memory->remote,
			      NULL, NULL);
}

static int shared_fd;

static void *shared_map(void)
{
	void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);

	ck_assert_ptr_ne(at, MAP_FAILED);
	return at;
}

static void memfd_make(void)
{
	shared_fd = memfd_create("shared", 0);
}

static void shm_make(void)
{
	char name[64];

	snprintf(name, sizeof(name), "/memory.device.%d", getpid());
	shared_fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	shm_unlink(name);
}

static void file_make(void)
{
	char name[] = "/tmp/memory.device.XXXXXX";

	shared_fd = mkstemp(name);
	unlink(name);
}

static void sysv_make(void)
{
	shared_fd = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600);
}

static void *sysv_map(void)
{
	void *at = shmat(shared_fd, NULL, 0);

	ck_assert_ptr_ne(at, (void *)-1);
	return at;
}

/* What processes share memory by. */
static const struct backing {
	void (*make)(void);
	void *(*map)(void);
} backings[] = {
	{ memfd_make, shared_map },
	{ shm_make, shared_map },
	{ file_make, shared_map },
	{ sysv_make, sysv_map },
};

static const struct backing *backing;

/* The same object in another process, open to RDMA there. */
static void sharer(int fd)
{
	struct memory memory;
	DAT_RMR_TRIPLET offer;
	DAT_CONN_QUAL qual;
	struct side side;
	char word;

	side_open(&side, 0);
	side.ep = ep_make(&side, NULL);
	must(shared_register(&side, backing->map(), cookie_one, &memory));
	offer = target(&memory, 0, PAGE);
	listen_any(&side, &qual);
	tell(fd, &qual, sizeof(qual));
	tell(fd, &offer, sizeof(offer));
	request_accept(request_take(&side), side.ep);
	hear(fd, &word, 1);
	side_close(&side);
}

static void share(void)
{
	struct side side, there;
	struct memory mine, near;
	DAT_RMR_TRIPLET offer;
	DAT_CONN_QUAL qual;
	pid_t pid;
	int fd;

	pid = process_start(sharer, &fd);
	hear(fd, &qual, sizeof(qual));
	hear(fd, &offer, sizeof(offer));
	side_open(&there, 0); /* for its address */
	side_open(&side, 1);
	side.ep = ep_make(&side, NULL);
	must(shared_register(&side, backing->map(), cookie_one, &mine));
	near = memory_make(&side, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	must(connect_to(side.ep, &there, qual, LONG));
	connection_event_wait(side.connects, DAT_CONNECTION_EVENT_ESTABLISHED, side.ep);
	pattern_fill(near.at, PAGE, 6);
	write_post(side.ep, 1, seg(&near, 0, PAGE), offer, DAT_COMPLETION_DEFAULT_FLAG);
	read_post(side.ep, 2, seg(&near, 0, PAGE), offer, DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(side.requests, side.ep, 1, DAT_DTO_SUCCESS, PAGE);
	dto_wait(side.requests, side.ep, 2, DAT_DTO_SUCCESS, PAGE);
	/* what was written there is here */
	pattern_check(mine.at, PAGE, 6);
	tell(fd, "e", 1);
	process_end(pid);
	side_close(&side);
	side_close(&there);
}

static void share_by(unsigned which)
{
	backing = &backings[which];
	backing->make();
	ck_assert_int_ge(shared_fd, 0);
	if (backing->map == shared_map)
		ck_assert_int_eq(ftruncate(shared_fd, PAGE), 0);
	share();
	if (backing->map == sysv_map)
		shmctl(shared_fd, IPC_RMID, NULL);
}

START_TEST(memfd_shared_with_another_process)
{
	share_by(0);
}
END_TEST

START_TEST(posix_memory_shared_with_another_process)
{
	share_by(1);
}
END_TEST

START_TEST(file_shared_with_another_process)
{
	share_by(2);
}
END_TEST

START_TEST(system_v_memory_shared_with_another_process)
{
	share_by(3);
}
END_TEST

START_TEST(names_of_shared_memory)
{
	const DAT_RETURN wrong = FAILS(INVALID_STATE, NO_SUBTYPE);
	struct memory first, again, other;
	struct side side;
	void *private;

	shared_fd = memfd_create("shared", 0);
	ck_assert_int_eq(ftruncate(shared_fd, PAGE), 0);
	side_open(&side, 0);
	private = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	returns(wrong, shared_register(&side, private, cookie_one, &first));
	must(shared_register(&side, shared_map(), cookie_one, &first));
	must(shared_register(&side, shared_map(), cookie_one, &again)); /* another mapping of it */
	must(shared_register(&side, shared_map(), cookie_two, &other)); /* another name for it */
	close(shared_fd);
	shared_fd = memfd_create("another", 0);
	ck_assert_int_eq(ftruncate(shared_fd, PAGE), 0);
	must(dat_lmr_free(other.lmr));
	/* whose last byte differs */
	must(shared_register(&side, shared_map(), cookie_two, &other));
	returns(wrong, shared_register(&side, shared_map(), cookie_one, &other));
	/* while anybody uses it, the name is taken */
	must(dat_lmr_free(first.lmr));
	returns(wrong, shared_register(&side, shared_map(), cookie_one, &other));
	must(dat_lmr_free(again.lmr));
	must(shared_register(&side, shared_map(), cookie_one, &other));
	side_close(&side);
}
END_TEST

START_TEST(synchronisation)
{
	DAT_LMR_TRIPLET list[2];
	DAT_PROVIDER_ATTR attr;
	struct memory memory;
	struct side side;

	side_open(&side, 0);
	must(dat_ia_query(side.ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_LMR_SYNC_REQ, &attr));
	ck_assert_int_eq(attr.lmr_sync_req, DAT_FALSE);
	memory = memory_make(&side, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	list[0] = seg(&memory, 0, 10);
	list[1] = seg(&memory, 100, PAGE - 100);
	must(dat_lmr_sync_rdma_read(side.ia, list, 2));
	must(dat_lmr_sync_rdma_write(side.ia, list, 2));
	must(dat_lmr_sync_rdma_write(side.ia, NULL, 0));
	list[1] = seg(&memory, 100, PAGE - 99);
	returns(BAD_ARG(2), dat_lmr_sync_rdma_read(side.ia, list, 2));
	returns(BAD_ARG(2), dat_lmr_sync_rdma_write(side.ia, NULL, 1));
	must(dat_lmr_free(memory.lmr));
	returns(BAD_ARG(2), dat_lmr_sync_rdma_read(side.ia, list, 1));
	side_close(&side);
}
END_TEST

/* ---- all kinds, and many ---- */

#define TYPES ((unsigned)DAT_MEM_TYPE_SO_VIRTUAL + 1)
#define PRIVS 16u

START_TEST(every_type_with_every_right)
{
	static const size_t lengths[] = { 1, 61, 2 * PAGE };
	struct side side;
	DAT_LMR_PARAM param;
	DAT_LMR_HANDLE source, lmr;
	void *at;

	side_open(&side, 0);
	at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < TYPES * PRIVS * COUNT(lengths); i++) {
		const DAT_MEM_TYPE type = (DAT_MEM_TYPE)(i % TYPES);
		const unsigned bits = i / TYPES % PRIVS, priv = (bits & 3) | (bits & 12) << 2;
		const size_t length = lengths[i / TYPES / PRIVS];

		must(any_register(&side, DAT_MEM_TYPE_VIRTUAL, at, NULL, length,
				  DAT_MEM_PRIV_NONE_FLAG, &source));
		must(any_register(&side, type, at, source, length, (DAT_MEM_PRIV_FLAGS)priv, &lmr));
		must(dat_lmr_query(lmr, DAT_LMR_FIELD_ALL, &param));
		ck_assert_int_eq(param.mem_type, type);
		ck_assert_uint_eq(param.mem_priv, priv);
		ck_assert_uint_eq(param.length, length);
		ck_assert_uint_eq(param.registered_address, (uintptr_t)at);
		ck_assert_uint_eq(param.registered_size, length);
		ck_assert_int_eq(param.rmr_context != 0,
				 (priv & (DAT_MEM_PRIV_REMOTE_READ_FLAG |
					  DAT_MEM_PRIV_REMOTE_WRITE_FLAG)) != 0);
		must(dat_lmr_free(source));
		must(dat_lmr_free(lmr));
	}
	must(dat_pz_free(side.pz));
	side_close(&side);
}
END_TEST

/* By each kind of tenant, alone and together. */
START_TEST(zones_are_held)
{
	struct memory memory;
	DAT_RMR_HANDLE rmr;
	struct side side;

	side_open(&side, 0);
	memory = memory_make(&side, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	returns(BAD_STATE(PZ_IN_USE), dat_pz_free(side.pz));
	must(dat_rmr_create(side.pz, &rmr));
	must(dat_lmr_free(memory.lmr));
	returns(BAD_STATE(PZ_IN_USE), dat_pz_free(side.pz));
	side.ep = ep_make(&side, NULL);
	must(dat_rmr_free(rmr));
	returns(BAD_STATE(PZ_IN_USE), dat_pz_free(side.pz));
	memory = memory_make(&side, PAGE, DAT_MEM_PRIV_ALL_FLAG); /* it is as good as ever */
	must(dat_lmr_free(memory.lmr));
	must(dat_ep_free(side.ep));
	must(dat_pz_free(side.pz));
	side_close(&side);
}
END_TEST

/* Of this process, in KiB. */
static unsigned long system_says(const char *what)
{
	FILE *status = fopen("/proc/self/status", "r");
	unsigned long kib = 0;
	char line[256];

	ck_assert_ptr_nonnull(status);
	while (fgets(line, sizeof(line), status))
		if (!strncmp(line, what, strlen(what)))
			kib = strtoul(line + strlen(what), NULL, 10);
	fclose(status);
	return kib;
}

/* Whatever is lost at each turn, be it two bytes or a page that stays pinned, would show. */
START_TEST(a_hundred_thousand_registrations)
{
	enum { WARM = 1000, TURNS = 100000 };
	unsigned long pinned = 0, resident = 0;
	DAT_RETURN ret = DAT_SUCCESS; /* one check at the end: each costs more than a turn */
	DAT_LMR_HANDLE lmr;
	struct side side;
	void *at;

	side_open(&side, 0);
	at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < WARM + TURNS && ret == DAT_SUCCESS; i++) {
		if (i == WARM) {
			pinned = system_says("VmPin:");
			resident = system_says("VmRSS:");
		}
		ret = any_register(&side, DAT_MEM_TYPE_VIRTUAL, at, NULL, 100,
				   DAT_MEM_PRIV_ALL_FLAG, &lmr);
		if (ret == DAT_SUCCESS)
			ret = dat_lmr_free(lmr);
	}
	must(ret);
	ck_assert_uint_eq(system_says("VmPin:"), pinned);
	ck_assert_uint_le(system_says("VmRSS:"), resident + 2 * TURNS / 1024);
	must(dat_pz_free(side.pz));
	side_close(&side);
}
END_TEST

struct registrar {
	pthread_t thread;
	const struct side *side;
	void *at;
	DAT_RETURN ret;
};

static void *registrar_body(void *arg)
{
	struct registrar *registrar = arg;

	for (unsigned i = 0; i < 500 && registrar->ret == DAT_SUCCESS; i++) {
		DAT_LMR_HANDLE source = NULL, lmr;

		registrar->ret = any_register(registrar->side, DAT_MEM_TYPE_VIRTUAL, registrar->at,
					      NULL, PAGE, DAT_MEM_PRIV_NONE_FLAG, &source);
		if (registrar->ret == DAT_SUCCESS)
			registrar->ret = any_register(registrar->side, (DAT_MEM_TYPE)(i % TYPES),
						      registrar->at, source, PAGE,
						      DAT_MEM_PRIV_ALL_FLAG, &lmr);
		if (registrar->ret == DAT_SUCCESS)
			registrar->ret = dat_lmr_free(i % 2 ? source : lmr);
		if (registrar->ret == DAT_SUCCESS)
			registrar->ret = dat_lmr_free(i % 2 ? lmr : source);
	}
	return NULL;
}

/* Of the same memory, under the same name. */
START_TEST(two_threads_register)
{
	struct registrar registrars[2];
	struct side side;
	void *at;

	side_open(&side, 0);
	at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < COUNT(registrars); i++) {
		registrars[i] = (struct registrar){ .side = &side, .at = at };
		ck_assert_int_eq(
			pthread_create(&registrars[i].thread, NULL, registrar_body, &registrars[i]),
			0);
	}
	for (size_t i = 0; i < COUNT(registrars); i++) {
		pthread_join(registrars[i].thread, NULL);
		must(registrars[i].ret);
	}
	must(dat_pz_free(side.pz));
	side_close(&side);
}
END_TEST

int main(int argc, char **argv)
{
	const struct test tests[] = {
		{ any_range_any_number_of_times, NEEDS_NOTHING },
		{ what_cannot_be_registered, NEEDS_NOTHING },
		{ constant_files, NEEDS_NOTHING },
		{ huge_pages, NEEDS_HUGE_PAGES },
		{ beyond_the_limit_of_locked_memory, NEEDS_NOTHING },
		{ a_limit_that_is_too_low_to_begin_with, NEEDS_NOTHING },
		{ a_peer_reads_constant_memory, NEEDS_NOTHING },
		{ regions_over_regions, NEEDS_NOTHING },
		{ a_derived_region_has_its_own_rights, NEEDS_NOTHING },
		{ all_its_bytes_and_no_other, NEEDS_NOTHING },
		{ other_keys_open_nothing, NEEDS_NOTHING },
		{ generations_go_in_any_order, NEEDS_NOTHING },
		{ a_derived_region_has_its_own_zone, NEEDS_NOTHING },
		{ derived_from_constant_memory, NEEDS_NOTHING },
		{ rights_and_order_reach_the_device, NEEDS_NOTHING },
		{ strictly_ordered_memory, NEEDS_NOTHING },
		{ memfd_shared_with_another_process, NEEDS_NOTHING },
		{ posix_memory_shared_with_another_process, NEEDS_NOTHING },
		{ file_shared_with_another_process, NEEDS_NOTHING },
		{ system_v_memory_shared_with_another_process, NEEDS_NOTHING },
		{ names_of_shared_memory, NEEDS_NOTHING },
		{ synchronisation, NEEDS_NOTHING },
		{ every_type_with_every_right, NEEDS_NOTHING },
		{ zones_are_held, NEEDS_NOTHING },
		{ a_hundred_thousand_registrations, NEEDS_NOTHING },
		{ two_threads_register, NEEDS_NOTHING },
	};

	return run(argc, argv, tests, COUNT(tests));
}
