/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registered memory on a device, beyond what conform tests: kinds of pages, the exact range of a
 * region, the access flags that reach the device, memory shared in other ways, and many regions.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/shm.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_verbs.h>

#include "../consumer/consumer.h"

#define PAGE ((size_t)4096)

static char shared_cookie[DAT_LMR_COOKIE_SIZE] = "forty\0bytes, all of which are compared";

/* A region of any type over @at; @source: of type LMR. */
static DAT_RETURN try_any(const struct side *side, DAT_MEM_TYPE type, void *at,
			  DAT_LMR_HANDLE source, size_t size, DAT_MEM_PRIV_FLAGS priv,
			  DAT_LMR_HANDLE *lmr)
{
	DAT_REGION_DESCRIPTION what = { .for_va = at };

	if (type == DAT_MEM_TYPE_LMR)
		what.for_lmr_handle = source;
	else if (type == DAT_MEM_TYPE_SHARED_VIRTUAL)
		what.for_shared_memory.shared_memory_id = &shared_cookie;
	return LMR_CREATE(side->ia, type, what, size, side->pz, priv, lmr, NULL, NULL, NULL, NULL);
}

/* Registers and frees. */
static DAT_RETURN try_register(const struct side *side, void *at, size_t size,
			       DAT_MEM_PRIV_FLAGS priv)
{
	DAT_LMR_HANDLE lmr = (DAT_LMR_HANDLE)1;
	DAT_RETURN ret = try_any(side, DAT_MEM_TYPE_VIRTUAL, at, NULL, size, priv, &lmr);

	if (ret == DAT_SUCCESS)
		ck_dat(dat_lmr_free(lmr));
	else
		ck_assert_ptr_eq(lmr, (DAT_LMR_HANDLE)1);
	return ret;
}

/* All privileges; the range that is registered is exactly that of @at. */
static struct region exact_region(const struct side *side, unsigned char *at, size_t size,
				  bool shared)
{
	struct region region = { .at = at, .size = size };
	DAT_REGION_DESCRIPTION what = { .for_shared_memory = { at,
							       shared ? &shared_cookie : NULL } };
	DAT_VADDR address;
	DAT_VLEN length;

	ck_dat(LMR_CREATE(side->ia, shared ? DAT_MEM_TYPE_SHARED_VIRTUAL : DAT_MEM_TYPE_VIRTUAL,
			  what, size, side->pz, DAT_MEM_PRIV_ALL_FLAG, &region.lmr,
			  &region.lmr_context, &region.rmr_context, &length, &address));
	ck_assert_uint_eq(address, (uintptr_t)at);
	ck_assert_uint_eq(length, size);
	return region;
}

static struct region derive_region(const struct side *side, const struct region *source)
{
	const DAT_REGION_DESCRIPTION what = { .for_lmr_handle = source->lmr };
	struct region derived = *source;

	ck_dat(region_try(side, DAT_MEM_TYPE_LMR, what, 1, DAT_MEM_PRIV_ALL_FLAG, &derived));
	return derived;
}

/* The client writes all of the region and reads it back. */
static void expect_access(const struct pair *pair, const struct region *region)
{
	expect_write(pair, region_target(region, 0, region->size));
	expect_read(pair, region_target(region, 0, region->size));
}

/* ---- kinds of pages ---- */

START_TEST(read_only_file_refuses_write_privileges)
{
	static const int flags[] = { MAP_PRIVATE, MAP_SHARED };
	const int fd = open("/proc/self/exe", O_RDONLY);
	struct side side;

	side_open_bare(&side, SERVER);
	for (size_t i = 0; i < COUNT(flags); i++) {
		void *at = mmap(NULL, PAGE, PROT_READ, flags[i], fd, 0);
		DAT_RETURN ret;

		ck_assert_ptr_ne(at, MAP_FAILED);
		ck_dat_is(try_register(&side, at, PAGE, DAT_MEM_PRIV_LOCAL_WRITE_FLAG),
			  NO_PRIVILEGE(WRITE));
		ck_dat_is(try_register(&side, at, PAGE, DAT_MEM_PRIV_REMOTE_WRITE_FLAG),
			  NO_PRIVILEGE(WRITE));
		ret = try_register(&side, at, PAGE, DAT_MEM_PRIV_READ_FLAG);
		/*
		 * Before Linux 6.2 the kernel pins every page for writing, which only a private
		 * mapping of a read-only file permits.
		 */
		if (flags[i] == MAP_PRIVATE || ret != BAD_ARG(3))
			ck_dat(ret);
	}
	side_close_abrupt(&side);
}
END_TEST

/* All of one huge page and a part of it; private, or shared under a cookie. */
START_TEST(huge_pages_are_registered_exactly)
{
	static const int flags[] = { MAP_PRIVATE, MAP_SHARED };
	const size_t size = (size_t)2 << 20;
	struct pair pair;

	pair_open_sized(&pair, NULL, size);
	for (unsigned i = 0; i < COUNT(flags); i++) {
		unsigned char *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
					 flags[i] | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
		struct region all, part;

		ck_assert_ptr_ne(at, MAP_FAILED);
		memset(at, UNTOUCHED, size);
		all = exact_region(&pair.server, at, size, flags[i] == MAP_SHARED);
		part = exact_region(&pair.server, at + size - PAGE - 1, PAGE, false);
		expect_access(&pair, &part);
		bytes_check(at, size - PAGE - 1, UNTOUCHED);
		bytes_check(at + size - 1, 1, UNTOUCHED);
		expect_access(&pair, &all);
		ck_dat(dat_lmr_free(part.lmr));
		ck_dat(dat_lmr_free(all.lmr));
		ck_assert_int_eq(munmap(at, size), 0);
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* A limit that permits next to nothing is reported before any registration fails. */
START_TEST(open_warns_of_a_low_memlock_limit)
{
	struct side side;
	const char *text;

	memlock_limit(64 << 10);
	stderr_redirect();
	side_open_bare(&side, SERVER);
	text = stderr_restore();
	ck_assert_ptr_nonnull(strstr(text, "RLIMIT_MEMLOCK"));
	ck_assert_ptr_nonnull(strstr(text, "soft limit 64 KiB"));
	ck_assert_ptr_nonnull(strstr(text, "ulimit -l"));
	ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1); /* one line */
	side_close_abrupt(&side);
}
END_TEST

START_TEST(peer_reads_read_only_memory)
{
	struct region constant;
	struct pair pair;
	void *at;

	pair_open(&pair, NULL);
	at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pattern_fill(at, PAGE, 9);
	mprotect(at, PAGE, PROT_READ);
	constant = region_over(&pair.server, at, PAGE, DAT_MEM_PRIV_READ_FLAG);
	expect_read(&pair, region_target(&constant, 0, PAGE));
	pattern_check(pair.client.memory, PAGE, 9);
	pair_close_abrupt(&pair);
}
END_TEST

/* A source without write privileges permits them, read-only memory does not. */
START_TEST(derived_region_has_the_limits_of_its_pages)
{
	DAT_REGION_DESCRIPTION what;
	DAT_LMR_HANDLE derived = DAT_HANDLE_NULL;
	struct region source;
	struct side side;

	side_open_bare(&side, SERVER);
	source = region_map(&side, PAGE, DAT_MEM_PRIV_NONE_FLAG);
	ck_assert_int_eq(mprotect(source.at, PAGE, PROT_READ), 0);
	what.for_lmr_handle = source.lmr;
	ck_dat_is(LMR_CREATE(side.ia, DAT_MEM_TYPE_LMR, what, PAGE, side.pz,
			     DAT_MEM_PRIV_REMOTE_WRITE_FLAG, &derived, NULL, NULL, NULL, NULL),
		  NO_PRIVILEGE(WRITE));
	ck_assert_ptr_null(derived);
	ck_dat(LMR_CREATE(side.ia, DAT_MEM_TYPE_LMR, what, 1, side.pz, DAT_MEM_PRIV_READ_FLAG,
			  &derived, NULL, NULL, NULL, NULL));
	ck_dat(dat_lmr_free(derived));
	/* the region outlives its pages */
	ck_assert_int_eq(munmap(source.at, PAGE), 0);
	ck_dat_is(LMR_CREATE(side.ia, DAT_MEM_TYPE_LMR, what, PAGE, side.pz, DAT_MEM_PRIV_READ_FLAG,
			     &derived, NULL, NULL, NULL, NULL),
		  BAD_ARG(3));
	ck_dat(dat_lmr_free(source.lmr));
	side_close_abrupt(&side);
}
END_TEST

/* ---- ranges and contexts ---- */

/* A region from shortly before the end of a page to shortly after the start of the next but one. */
#define REGION_START  (PAGE - 5)
#define REGION_LENGTH (PAGE + 12)

static const struct reach {
	int offset; /* from the region's first byte */
	size_t length;
	bool permitted;
} reaches[] = {
	{ 0, REGION_LENGTH, true },	 /* all of it */
	{ 0, 1, true },			 /* its first byte */
	{ REGION_LENGTH - 1, 1, true },	 /* its last byte */
	{ -1, 1, false },		 /* the byte before it */
	{ -1, 2, false },		 /* and its first */
	{ -1, REGION_LENGTH, false },	 /* and all but its last */
	{ REGION_LENGTH, 1, false },	 /* the byte behind it */
	{ REGION_LENGTH - 1, 2, false }, /* and its last */
	{ 1, REGION_LENGTH, false },	 /* and all but its first */
	{ 0, REGION_LENGTH + 1, false }, /* and all of it */
};

START_TEST(region_permits_its_range_and_no_byte_beyond)
{
	unsigned char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct region region;
	struct pair pair;

	ck_assert_ptr_ne(pages, MAP_FAILED);
	pair_open(&pair, NULL);
	region = exact_region(&pair.server, pages + REGION_START, REGION_LENGTH, false);
	for (size_t i = 0; i < COUNT(reaches); i++) {
		struct region part = region;

		part.at += reaches[i].offset;
		part.size = reaches[i].length;
		memset(pages, UNTOUCHED, 3 * PAGE);
		if (reaches[i].permitted) {
			expect_access(&pair, &part);
			memset(part.at, UNTOUCHED, part.size);
		} else {
			expect_write_refused(&pair, region_target(&part, 0, part.size));
			expect_read_refused(&pair, region_target(&part, 0, part.size));
		}
		bytes_check(pages, 3 * PAGE, UNTOUCHED);
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* Although another region of the same bytes permits all. */
START_TEST(invalid_context_permits_no_access)
{
	struct region valid, freed, local, foreign;
	DAT_RMR_TRIPLET bad[4];
	struct side other;
	struct pair pair;

	pair_open(&pair, NULL);
	valid = region_map(&pair.server, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	side_copy_in_new_zone(&other, &pair.server);
	foreign = exact_region(&other, valid.at, PAGE, false);
	freed = exact_region(&pair.server, valid.at, PAGE, false);
	ck_dat(dat_lmr_free(freed.lmr));
	local = region_map(&pair.server, PAGE, LOCAL);
	bad[0] = region_target(&freed, 0, 8);
	bad[1] = region_target(&foreign, 0, 8);
	bad[2] = region_target(&local, 0, 8);
	bad[3] = region_target(&valid, 0, 8);
	bad[3].rmr_context ^= 0x00ffff00;
	for (size_t i = 0; i < COUNT(bad); i++) {
		expect_write_refused(&pair, bad[i]);
		expect_read_refused(&pair, bad[i]);
	}
	bytes_check(valid.at, PAGE, UNTOUCHED);
	bytes_check(local.at, PAGE, UNTOUCHED);
	expect_access(&pair, &valid);
	pair_close_abrupt(&pair);
}
END_TEST

/* Whose bytes another region of the same IA permits. */
START_TEST(contexts_of_a_freed_region_and_of_another_ia_permit_no_access)
{
	struct region valid, freed, foreign;
	DAT_RMR_TRIPLET bad[2];
	struct side other;
	struct pair pair;

	pair_open(&pair, NULL);
	side_open(&other, SERVER);
	valid = region_map(&pair.server, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	foreign = exact_region(&other, valid.at, PAGE, false);
	freed = exact_region(&pair.server, valid.at, PAGE, false);
	ck_dat(dat_lmr_free(freed.lmr));
	bad[0] = region_target(&freed, 0, 8);
	bad[1] = region_target(&foreign, 0, 8);
	for (size_t i = 0; i < COUNT(bad); i++) {
		expect_write_refused(&pair, bad[i]);
		expect_read_refused(&pair, bad[i]);
	}
	expect_access(&pair, &valid);
	side_close_abrupt(&other);
	pair_close_abrupt(&pair);
}
END_TEST

/* Neither in sequence nor few: a peer would find one by trying those near its own. */
START_TEST(contexts_can_not_be_guessed)
{
	DAT_RMR_CONTEXT last = 0;
	unsigned near = 0;
	struct side side;

	side_open(&side, SERVER);
	for (unsigned i = 0; i < 8; i++) {
		struct region region = region_map(&side, PAGE, DAT_MEM_PRIV_ALL_FLAG);

		ck_assert_uint_ne(region.rmr_context, 0);
		near += region.rmr_context - last + 4096 < 8192 || region.rmr_context < 4096;
		last = region.rmr_context;
		region_unmap(&region);
	}
	ck_assert_uint_lt(near, 3); /* by chance once in 2^50 runs */
	side_close(&side);
}
END_TEST

/* A region, one derived from it, and one derived from that: those that are not freed serve. */
START_TEST(derived_regions_are_freed_in_any_order)
{
	static const unsigned orders[][3] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 0, 2 }, { 1, 2, 0 } };
	struct region regions[3];
	struct pair pair;

	pair_open(&pair, NULL);
	for (size_t i = 0; i < COUNT(orders); i++) {
		regions[0] = region_map(&pair.server, PAGE, DAT_MEM_PRIV_ALL_FLAG);
		regions[1] = derive_region(&pair.server, &regions[0]);
		regions[2] = derive_region(&pair.server, &regions[1]);
		for (size_t n = 0; n < 3; n++) {
			const struct region *freed = &regions[orders[i][n]];

			for (size_t rest = n; rest < 3; rest++)
				expect_access(&pair, &regions[orders[i][rest]]);
			ck_dat(dat_lmr_free(freed->lmr));
			if (n % 2)
				expect_read_refused(&pair, region_target(freed, 0, PAGE));
			else
				expect_write_refused(&pair, region_target(freed, 0, PAGE));
		}
		munmap(regions[0].at, PAGE);
	}
	pair_close_abrupt(&pair);
}
END_TEST

/* The bytes are those of the source, the zone is not: each serves the endpoints of its own. */
START_TEST(source_and_derived_region_serve_their_own_zones)
{
	struct region source, derived;
	struct pair pair, other;

	pair_open(&pair, NULL);
	pair_copy_in_new_zone(&other, &pair);
	source = region_map(&pair.server, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	derived = derive_region(&other.server, &source);
	expect_access(&pair, &source);
	expect_access(&other, &derived);
	pattern_fill(source.at, PAGE, 2);
	expect_write_refused(&pair, region_target(&derived, 0, PAGE));
	expect_write_refused(&other, region_target(&source, 0, PAGE));
	pattern_check(source.at, PAGE, 2);
	ck_dat(dat_lmr_free(source.lmr));
	ck_dat(dat_ep_free(pair.server.ep));
	ck_dat(dat_lmr_free(pair.server.lmr));
	ck_dat(dat_pz_free(pair.server.pz));
	expect_access(&other, &derived);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- access flags ---- */

struct ibv_mr;
struct ibv_pd;
__attribute__((visibility("default"))) struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *at,
								       size_t size, uint64_t iova,
								       unsigned access);
typedef struct ibv_mr *(*registration)(struct ibv_pd *pd, void *at, size_t size, uint64_t iova,
				       unsigned access);

static _Thread_local unsigned last_access; /* flags of the latest registration */

/* The provider calls this function instead of that of libibverbs. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *at, size_t size, uint64_t iova,
				unsigned access)
{
	static _Thread_local registration real;

	if (!real)
		real = (registration)dlsym(dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD),
					   "ibv_reg_mr_iova2");
	last_access = access;
	return real(pd, at, size, iova, access);
}

#define A(what) IB_UVERBS_ACCESS_##what
#define P(what) DAT_MEM_PRIV_##what##_FLAG

/* @relaxed: of an IA that is opened with the prefix RO_AWARE_ before its name. */
static const struct {
	bool relaxed;
	DAT_MEM_TYPE type;
	unsigned priv, access;
} access_flags[] = {
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

START_TEST(privileges_and_ordering_reach_the_device)
{
	struct side plain, relaxed;
	DAT_LMR_HANDLE source, lmr;
	char name[DAT_NAME_MAX_LENGTH];
	void *at;

	snprintf(name, sizeof(name), "RO_AWARE_%s", ia_name(SERVER, BY_INTERFACE));
	side_open_bare(&plain, SERVER);
	side_open_bare_as(&relaxed, name, false);
	at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < COUNT(access_flags); i++) {
		const struct side *side = access_flags[i].relaxed ? &relaxed : &plain;

		ck_dat(try_any(side, DAT_MEM_TYPE_VIRTUAL, at, NULL, PAGE, DAT_MEM_PRIV_NONE_FLAG,
			       &source));
		last_access = ~0u;
		ck_dat(try_any(side, access_flags[i].type, at, source, PAGE,
			       (DAT_MEM_PRIV_FLAGS)access_flags[i].priv, &lmr));
		ck_assert_uint_eq(last_access & ~(unsigned)IB_UVERBS_ACCESS_MW_BIND,
				  access_flags[i].access);
		ck_dat(dat_lmr_free(lmr));
		ck_dat(dat_lmr_free(source));
	}
	side_close_abrupt(&plain);
	side_close_abrupt(&relaxed);
}
END_TEST

/* ---- memory of several processes ---- */

static struct region register_shared(const struct side *side, void *at)
{
	const DAT_REGION_DESCRIPTION what = { .for_shared_memory = { at, &shared_cookie } };
	struct region region = { .at = at, .size = PAGE };

	ck_dat(region_try(side, DAT_MEM_TYPE_SHARED_VIRTUAL, what, PAGE, DAT_MEM_PRIV_ALL_FLAG,
			  &region));
	return region;
}

/* The ways in which processes share memory. */
static int backing_fd;

static void memfd_make(void)
{
	backing_fd = memfd_create("shared", 0);
}

static void shm_make(void)
{
	char name[64];

	snprintf(name, sizeof(name), "/memory.device.%d", getpid());
	backing_fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	shm_unlink(name);
}

static void file_make(void)
{
	char name[] = "/tmp/memory.device.XXXXXX";

	backing_fd = mkstemp(name);
	unlink(name);
}

static void *file_map(void)
{
	void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, backing_fd, 0);

	ck_assert_ptr_ne(at, MAP_FAILED);
	return at;
}

static void sysv_make(void)
{
	backing_fd = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600);
}

static void *sysv_map(void)
{
	void *at = shmat(backing_fd, NULL, 0);

	ck_assert_ptr_ne(at, (void *)-1);
	return at;
}

static const struct shared_memory_kind {
	void (*make)(void);
	void *(*map)(void);
} memfd = { memfd_make, file_map }, shm = { shm_make, file_map }, file = { file_make, file_map },
  sysv = { sysv_make, sysv_map };

static const struct shared_memory_kind *backing;

/* Registers the same object in another process, and accepts a connection there. */
static void sharing_server(int fd)
{
	struct region region;
	DAT_RMR_TRIPLET offer;
	DAT_CONN_QUAL qual;
	struct side side;
	char word;

	side_open(&side, SERVER);
	region = register_shared(&side, backing->map());
	offer = region_target(&region, 0, PAGE);
	listen_any(&side, &qual);
	channel_send(fd, &qual, sizeof(qual));
	channel_send(fd, &offer, sizeof(offer));
	ck_dat(dat_cr_accept(expect_cr(&side), side.ep, 0, NULL));
	channel_recv(fd, &word, 1);
	side_close_abrupt(&side);
}

static void share_with_server(void)
{
	struct side side, server;
	struct region region;
	DAT_RMR_TRIPLET offer;
	DAT_CONN_QUAL qual;
	pid_t pid;
	int fd;

	pid = process_start(sharing_server, &fd);
	channel_recv(fd, &qual, sizeof(qual));
	channel_recv(fd, &offer, sizeof(offer));
	side_open_bare(&server, SERVER); /* for its address */
	side_open(&side, CLIENT);
	region = register_shared(&side, backing->map());
	ck_dat(try_connect(side.ep, &server, qual, TIME_LIMIT));
	expect_connection(&side, DAT_CONNECTION_EVENT_ESTABLISHED);
	pattern_fill(side.memory, PAGE, 6);
	post_write(side.ep, 1, segment(&side, 0, PAGE), offer, DAT_COMPLETION_DEFAULT_FLAG);
	post_read(side.ep, 2, segment(&side, 0, PAGE), offer, DAT_COMPLETION_DEFAULT_FLAG);
	expect_request_done(&side, 1, PAGE);
	expect_request_done(&side, 2, PAGE);
	/* what was written to the server's mapping is in this one */
	pattern_check(region.at, PAGE, 6);
	channel_send(fd, "e", 1);
	process_end(pid);
	side_close_abrupt(&side);
	side_close_abrupt(&server);
}

static void share_by(const struct shared_memory_kind *by)
{
	backing = by;
	backing->make();
	ck_assert_int_ge(backing_fd, 0);
	if (backing->map == file_map)
		ck_assert_int_eq(ftruncate(backing_fd, PAGE), 0);
	share_with_server();
	if (backing->map == sysv_map)
		shmctl(backing_fd, IPC_RMID, NULL);
}

START_TEST(memfd_is_shared_with_another_process)
{
	share_by(&memfd);
}
END_TEST

START_TEST(posix_memory_is_shared_with_another_process)
{
	share_by(&shm);
}
END_TEST

START_TEST(file_is_shared_with_another_process)
{
	share_by(&file);
}
END_TEST

START_TEST(system_v_memory_is_shared_with_another_process)
{
	share_by(&sysv);
}
END_TEST

/* ---- files without pages ---- */

/*
 * Maps two pages of a file that can have one only: of a file system of that size, where the test
 * may mount one, or else of a file that ends there. @fd becomes the file.
 */
static void *map_short_file(int *fd)
{
	char folder[] = "/tmp/memory.device.XXXXXX", name[sizeof(folder) + 2];
	bool mounted;
	void *at;

	ck_assert_ptr_nonnull(mkdtemp(folder));
	mounted = !unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
		  !mount("none", folder, "tmpfs", 0, "nr_blocks=1");
	snprintf(name, sizeof(name), "%s/f", folder);
	*fd = open(name, O_RDWR | O_CREAT, 0600);
	ck_assert_int_ge(*fd, 0);
	ck_assert_int_eq(ftruncate(*fd, (off_t)(mounted ? 2 * PAGE : PAGE)), 0);
	ck_assert_int_eq(pwrite(*fd, "x", 1, 0), 1);
	ck_assert_int_eq(unlink(name), 0);
	if (mounted)
		ck_assert_int_eq(umount2(folder, MNT_DETACH), 0);
	ck_assert_int_eq(rmdir(folder), 0);
	at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	ck_assert_ptr_ne(at, MAP_FAILED);
	return at;
}

START_TEST(a_page_that_its_file_system_has_no_room_for_is_not_registered)
{
	struct region region;
	unsigned char *at;
	struct pair pair;
	int fd;

	pair_open(&pair, NULL);
	at = map_short_file(&fd);
	ck_dat_is(try_register(&pair.client, at, 2 * PAGE, LOCAL), BAD_ARG(3));
	ck_dat_is(try_register(&pair.client, at + PAGE, PAGE, LOCAL), BAD_ARG(3));
	ck_dat_is(try_register(&pair.client, at + PAGE, PAGE, DAT_MEM_PRIV_LOCAL_READ_FLAG),
		  BAD_ARG(3));
	region = region_over(&pair.server, at, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	expect_write(&pair, region_target(&region, 0, PAGE));
	ck_dat(dat_lmr_free(region.lmr));
	munmap(at, 2 * PAGE);
	close(fd);
	pair_close_abrupt(&pair);
}
END_TEST

/* ---- synchronisation ---- */

START_TEST(sync_checks_its_ranges)
{
	DAT_LMR_TRIPLET list[2];
	struct region region;
	struct side side;

	side_open_bare(&side, SERVER);
	ck_assert_int_eq(side.provider.lmr_sync_req, DAT_FALSE);
	region = region_map(&side, PAGE, DAT_MEM_PRIV_ALL_FLAG);
	list[0] = region_segment(&region, 0, 10);
	list[1] = region_segment(&region, 100, PAGE - 100);
	ck_dat(dat_lmr_sync_rdma_read(side.ia, list, 2));
	ck_dat(dat_lmr_sync_rdma_write(side.ia, list, 2));
	ck_dat(dat_lmr_sync_rdma_write(side.ia, NULL, 0));
	list[1] = region_segment(&region, 100, PAGE - 99);
	ck_dat_is(dat_lmr_sync_rdma_read(side.ia, list, 2), BAD_ARG(2));
	ck_dat_is(dat_lmr_sync_rdma_write(side.ia, NULL, 1), BAD_ARG(2));
	ck_dat(dat_lmr_free(region.lmr));
	ck_dat_is(dat_lmr_sync_rdma_read(side.ia, list, 1), BAD_ARG(2));
	side_close_abrupt(&side);
}
END_TEST

/* ---- many ---- */

/* In KiB, of this process. */
static unsigned long memory_status(const char *field)
{
	FILE *status = fopen("/proc/self/status", "r");
	unsigned long kib = 0;
	char line[256];

	ck_assert_ptr_nonnull(status);
	while (fgets(line, sizeof(line), status))
		if (!strncmp(line, field, strlen(field)))
			kib = strtoul(line + strlen(field), NULL, 10);
	fclose(status);
	return kib;
}

/* The loss of an allocation or of a pinned page in each turn would show. */
START_TEST(registrations_leak_nothing)
{
	enum { WARM = 1000, TURNS = 10000 };
	unsigned long pinned = 0, resident = 0;
	DAT_LMR_HANDLE lmr;
	struct side side;
	void *at;

	side_open_bare(&side, SERVER);
	at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < WARM + TURNS; i++) {
		if (i == WARM) {
			pinned = memory_status("VmPin:");
			resident = memory_status("VmRSS:");
		}
		ck_dat(try_any(&side, DAT_MEM_TYPE_VIRTUAL, at, NULL, 100, DAT_MEM_PRIV_ALL_FLAG,
			       &lmr));
		ck_dat(dat_lmr_free(lmr));
	}
	ck_assert_uint_eq(memory_status("VmPin:"), pinned);
	if (!SANITIZER_KEEPS_MEMORY)
		ck_assert_uint_le(memory_status("VmRSS:"), resident + 8 * TURNS / 1024);
	ck_dat(dat_pz_free(side.pz));
	side_close_abrupt(&side);
}
END_TEST

#define TYPES ((unsigned)DAT_MEM_TYPE_SO_VIRTUAL + 1)

struct registrar {
	pthread_t thread;
	const struct side *side;
	void *at;
	DAT_RETURN ret;
};

static void *registrar_main(void *arg)
{
	struct registrar *registrar = arg;

	for (unsigned i = 0; i < 500 && registrar->ret == DAT_SUCCESS; i++) {
		DAT_LMR_HANDLE source = NULL, lmr;

		registrar->ret = try_any(registrar->side, DAT_MEM_TYPE_VIRTUAL, registrar->at, NULL,
					 PAGE, DAT_MEM_PRIV_NONE_FLAG, &source);
		if (registrar->ret == DAT_SUCCESS)
			registrar->ret = try_any(registrar->side, (DAT_MEM_TYPE)(i % TYPES),
						 registrar->at, source, PAGE, DAT_MEM_PRIV_ALL_FLAG,
						 &lmr);
		if (registrar->ret == DAT_SUCCESS)
			registrar->ret = dat_lmr_free(i % 2 ? source : lmr);
		if (registrar->ret == DAT_SUCCESS)
			registrar->ret = dat_lmr_free(i % 2 ? lmr : source);
	}
	return NULL;
}

/* The same memory, under the same cookie. */
START_TEST(two_threads_register_at_once)
{
	struct registrar registrars[2];
	struct side side;
	void *at;

	side_open_bare(&side, SERVER);
	at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < COUNT(registrars); i++) {
		registrars[i] = (struct registrar){ .side = &side, .at = at };
		registrars[i].thread = consumer_thread_start(registrar_main, &registrars[i]);
	}
	for (size_t i = 0; i < COUNT(registrars); i++) {
		consumer_thread_join(registrars[i].thread);
		ck_dat(registrars[i].ret);
	}
	ck_dat(dat_pz_free(side.pz));
	side_close_abrupt(&side);
}
END_TEST

int main(int argc, char **argv)
{
	const struct device_case cases[] = {
		{ read_only_file_refuses_write_privileges, NEEDS_NOTHING },
		{ huge_pages_are_registered_exactly, NEEDS_HUGE_PAGES },
		{ open_warns_of_a_low_memlock_limit, NEEDS_MEMLOCK },
		{ peer_reads_read_only_memory, NEEDS_NOTHING },
		{ derived_region_has_the_limits_of_its_pages, NEEDS_NOTHING },
		{ region_permits_its_range_and_no_byte_beyond, NEEDS_NOTHING },
		{ invalid_context_permits_no_access, NEEDS_NOTHING },
		{ contexts_of_a_freed_region_and_of_another_ia_permit_no_access, NEEDS_NOTHING },
		{ contexts_can_not_be_guessed, NEEDS_RANDOM_CONTEXTS },
		{ derived_regions_are_freed_in_any_order, NEEDS_NOTHING },
		{ source_and_derived_region_serve_their_own_zones, NEEDS_NOTHING },
		{ privileges_and_ordering_reach_the_device, NEEDS_ACCESS_FLAGS },
		{ memfd_is_shared_with_another_process, NEEDS_NOTHING },
		{ posix_memory_is_shared_with_another_process, NEEDS_NOTHING },
		{ file_is_shared_with_another_process, NEEDS_NOTHING },
		{ system_v_memory_is_shared_with_another_process, NEEDS_NOTHING },
		{ a_page_that_its_file_system_has_no_room_for_is_not_registered, NEEDS_NOTHING },
		{ sync_checks_its_ranges, NEEDS_NOTHING },
		{ registrations_leak_nothing, NEEDS_NOTHING },
		{ two_threads_register_at_once, NEEDS_NOTHING },
	};

	return run_on_device(argc, argv, cases, COUNT(cases));
}
