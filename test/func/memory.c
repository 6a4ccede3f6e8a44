// SPDX-License-Identifier: BSD-2-Clause
/* Registered memory: what can be registered, what a device then reaches, and what becomes of it when a parent goes. */
#define _GNU_SOURCE
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

#include "peer.h"

#define PAGE ((size_t)4096)

static DAT_RETURN try_register(const struct side *side, void *at, size_t size, DAT_MEM_PRIV_FLAGS priv)
{
	DAT_REGION_DESCRIPTION region = { .for_va = at };
	DAT_LMR_HANDLE lmr = (DAT_LMR_HANDLE)1;
	DAT_RETURN ret;

	ret = dat_lmr_create(side->ia, DAT_MEM_TYPE_VIRTUAL, region, size, side->pz, priv, &lmr, NULL, NULL, NULL,
			     NULL);
	if (ret == DAT_SUCCESS)
		must(dat_lmr_free(lmr));
	else
		ck_assert_ptr_eq(lmr, (DAT_LMR_HANDLE)1);
	return ret;
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
		must(dat_lmr_create(side.ia, DAT_MEM_TYPE_VIRTUAL, region, 5, side.pz, DAT_MEM_PRIV_ALL_FLAG, &lmr[i],
				    &context[i], &remote[i], &size, &address));
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
	returns(BAD_ARG(3), try_register(&side, hole, 3 * PAGE, DAT_MEM_PRIV_ALL_FLAG));
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
		/* before Linux 6.2 the kernel asks to write whatever it pins, which only a copy of a file allows */
		if (flags[i] == MAP_PRIVATE || ret != BAD_ARG(3))
			must(ret);
	}
	side_close(&side);
}
END_TEST

START_TEST(huge_pages)
{
	const size_t size = (size_t)2 << 20;
	struct side side;
	char *at;

	side_open(&side, 0);
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (at != MAP_FAILED) { /* the system keeps some */
		must(try_register(&side, at, size, DAT_MEM_PRIV_ALL_FLAG));
		must(try_register(&side, at + 1, PAGE, DAT_MEM_PRIV_ALL_FLAG));
	}
	side_close(&side);
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

START_TEST(beyond_the_limit_of_locked_memory)
{
	const struct rlimit limit = { 1 << 20, 1 << 20 };
	static char said[4096];
	struct side side;
	char *at;
	FILE *log = tmpfile();
	int errors = dup(STDERR_FILENO);

	side_open(&side, 0);
	at = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(at, MAP_FAILED);
	give_up_pinning_all();
	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	errors_to(log);
	returns(FAILS(INSUFFICIENT_RESOURCES, RESOURCE_MEMORY_REGION),
		try_register(&side, at, 4 << 20, DAT_MEM_PRIV_ALL_FLAG));
	ck_assert_int_ge(dup2(errors, STDERR_FILENO), 0);
	rewind(log);
	ck_assert_uint_gt(fread(said, 1, sizeof(said) - 1, log), 0);
	ck_assert_ptr_nonnull(strstr(said, "RLIMIT_MEMLOCK is 1024 KiB"));
	ck_assert_ptr_nonnull(strstr(said, "ulimit -l"));
	ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1); /* one line */
	must(try_register(&side, at, PAGE, DAT_MEM_PRIV_ALL_FLAG));
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
	must(dat_lmr_create(pair.far.ia, DAT_MEM_TYPE_VIRTUAL, region, PAGE, pair.far.pz, DAT_MEM_PRIV_READ_FLAG,
			    &constant.lmr, &constant.local, &constant.remote, NULL, NULL));
	read_post(pair.near.ep, 1, seg(&near, 0, PAGE), target(&constant, 0, PAGE), DAT_COMPLETION_DEFAULT_FLAG);
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
	must(dat_lmr_create(pair.far.ia, DAT_MEM_TYPE_LMR, region, 12345, pair.far.pz, DAT_MEM_PRIV_ALL_FLAG,
			    &child.lmr, &child.local, &child.remote, &size, &address));
	ck_assert_uint_ne(child.local, parent.local);
	ck_assert_uint_eq(address, (uintptr_t)parent.at);
	ck_assert_uint_eq(size, PAGE);
	must(dat_lmr_free(parent.lmr));
	pattern_fill(near.at, PAGE, 4);
	write_post(pair.near.ep, 1, seg(&near, 0, PAGE), target(&child, 0, PAGE), DAT_COMPLETION_DEFAULT_FLAG);
	read_post(pair.near.ep, 2, seg(&near, 0, PAGE), target(&child, 0, PAGE), DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(pair.near.requests, pair.near.ep, 1, DAT_DTO_SUCCESS, PAGE);
	dto_wait(pair.near.requests, pair.near.ep, 2, DAT_DTO_SUCCESS, PAGE);
	pattern_check(parent.at, PAGE, 4);
	region.for_lmr_handle = parent.lmr;
	returns(BAD_HANDLE(_LMR), dat_lmr_create(pair.far.ia, DAT_MEM_TYPE_LMR, region, PAGE, pair.far.pz,
						 DAT_MEM_PRIV_ALL_FLAG, &child.lmr, NULL, NULL, NULL, NULL));
	pair_close(&pair);
}
END_TEST

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
	must(dat_lmr_create(pair.far.ia, DAT_MEM_TYPE_LMR, region, 0, pair.far.pz, DAT_MEM_PRIV_READ_FLAG, &child.lmr,
			    &child.local, &child.remote, NULL, NULL));
	read_post(pair.near.ep, 1, seg(&near, 0, PAGE), target(&child, 0, PAGE), DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(pair.near.requests, pair.near.ep, 1, DAT_DTO_SUCCESS, PAGE);
	write_post(pair.near.ep, 2, seg(&near, 0, PAGE), target(&child, 0, PAGE), DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(pair.near.requests, pair.near.ep, 2, DAT_DTO_ERR_REMOTE_ACCESS, 0);
	bytes_check(parent.at, PAGE, UNTOUCHED);
	pair_close(&pair);
}
END_TEST

START_TEST(strictly_ordered_memory)
{
	DAT_REGION_DESCRIPTION region;
	struct memory near, far;
	struct pair pair;
	char name[DAT_NAME_MAX_LENGTH] = "RO_AWARE_";

	/* the name with the prefix opens the same adapter */
	strncat(name, ia_name(0, BY_INTERFACE), sizeof(name) - strlen(name) - 1);
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
	must(dat_lmr_create(pair.far.ia, DAT_MEM_TYPE_SO_VIRTUAL, region, PAGE, pair.far.pz, DAT_MEM_PRIV_ALL_FLAG,
			    &far.lmr, &far.local, &far.remote, NULL, NULL));
	pattern_fill(near.at, PAGE, 5);
	write_post(pair.near.ep, 1, seg(&near, 0, PAGE), target(&far, 0, PAGE), DAT_COMPLETION_DEFAULT_FLAG);
	read_post(pair.near.ep, 2, seg(&near, 0, PAGE), target(&far, 0, PAGE), DAT_COMPLETION_DEFAULT_FLAG);
	dto_wait(pair.near.requests, pair.near.ep, 1, DAT_DTO_SUCCESS, PAGE);
	dto_wait(pair.near.requests, pair.near.ep, 2, DAT_DTO_SUCCESS, PAGE);
	pattern_check(far.at, PAGE, 5);
	pair_close(&pair);
}
END_TEST

/* ---- memory of several processes ------------------------------------------------------------------------------- */

static const char cookie_one[DAT_LMR_COOKIE_SIZE] = "forty bytes, all of which are compared.1";
static const char cookie_two[DAT_LMR_COOKIE_SIZE] = "forty bytes, all of which are compared.2";

static DAT_RETURN shared_register(const struct side *side, void *at, const char *name, struct memory *memory)
{
	DAT_REGION_DESCRIPTION region;

	region.for_shared_memory.virtual_address = at;
	region.for_shared_memory.shared_memory_id = (DAT_LMR_COOKIE)name;
	memory->at = at;
	memory->size = PAGE;
	return dat_lmr_create(side->ia, DAT_MEM_TYPE_SHARED_VIRTUAL, region, PAGE, side->pz, DAT_MEM_PRIV_ALL_FLAG,
			      &memory->lmr, &memory->local, &memory->remote, NULL, NULL);
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

int main(int argc, char **argv)
{
	const struct test tests[] = {
		{ any_range_any_number_of_times, NEEDS_NOTHING },
		{ what_cannot_be_registered, NEEDS_NOTHING },
		{ constant_files, NEEDS_NOTHING },
		{ huge_pages, NEEDS_NOTHING },
		{ beyond_the_limit_of_locked_memory, NEEDS_NOTHING },
		{ a_peer_reads_constant_memory, NEEDS_NOTHING },
		{ regions_over_regions, NEEDS_NOTHING },
		{ a_derived_region_has_its_own_rights, NEEDS_REMOTE_STATUS },
		{ strictly_ordered_memory, NEEDS_NOTHING },
		{ memfd_shared_with_another_process, NEEDS_NOTHING },
		{ posix_memory_shared_with_another_process, NEEDS_NOTHING },
		{ file_shared_with_another_process, NEEDS_NOTHING },
		{ system_v_memory_shared_with_another_process, NEEDS_NOTHING },
		{ names_of_shared_memory, NEEDS_NOTHING },
		{ synchronisation, NEEDS_NOTHING },
	};

	return run(argc, argv, tests, COUNT(tests));
}
