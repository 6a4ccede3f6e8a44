/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared memory and its cookies: which memory counts as shared, and which ranges are the same.
 * Built twice: for the kernel that there is, and for one that answers no queries of
 * /proc/self/maps.
 */
#define _FILE_OFFSET_BITS 64 /* hosts of 32 bits have such offsets, too */
#include <fcntl.h>
#include <stdio.h>
#include <sys/shm.h>
#include <unistd.h>

#include "region.h"

#define PAGES	4
#define SIZE	(PAGES * PAGE)
#define REFUSED DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE)
#define RW	(PROT_READ | PROT_WRITE)

#ifdef NO_MAPS_QUERIES
int __wrap_ioctl(int fd, unsigned long request, ...);

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	(void)fd;
	(void)request;
	errno = ENOTTY;
	return -1;
}
#endif

/* It has its memory from within the C library, where no allocation of ours fails. */
static bool tree_is_full;

void *__real_tsearch(const void *key, void **root, int (*compare)(const void *, const void *));
void *__wrap_tsearch(const void *key, void **root, int (*compare)(const void *, const void *));

void *__wrap_tsearch(const void *key, void **root, int (*compare)(const void *, const void *))
{
	return tree_is_full ? NULL : __real_tsearch(key, root, compare);
}

static struct ia *ia;
static struct pz *pz;
static DAT_EVD_HANDLE async;
static char cookie[DAT_LMR_COOKIE_SIZE] = "the cookie";

static void setup(void)
{
	DAT_PZ_HANDLE handle;

	ia = ia_open_on("fake0", false, &async);
	ck_dat(pz_create(ia, &handle));
	pz = handle;
}

static void teardown(void)
{
	ck_dat(ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	ck_assert_uint_eq(fake_alive(FAKE_ANY), 0);
}

static DAT_RETURN try_shared(char (*cookie)[DAT_LMR_COOKIE_SIZE], char *address, DAT_VLEN length,
			     DAT_LMR_HANDLE *lmr)
{
	return lmr_create_va(ia, DAT_MEM_TYPE_SHARED_VIRTUAL, describe_shared(address, cookie),
			     length, pz, DAT_MEM_PRIV_LOCAL_READ_FLAG, lmr, NULL, NULL, NULL, NULL);
}

static char *mapped(void *at, size_t size, int flags, int fd, off_t offset)
{
	char *address = mmap(at, size, RW, flags | (at ? MAP_FIXED : 0), fd, offset);

	ck_assert_ptr_ne(address, MAP_FAILED);
	return address;
}

static int memory_file(void)
{
	int fd = memfd_create("shared", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, 2 * SIZE), 0);
	return fd;
}

static int real_file(void)
{
	char path[] = "test_shared.XXXXXX";
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(ftruncate(fd, SIZE), 0);
	return fd;
}

/* ---- what is shared ---- */

static char *from_memfd(void)
{
	return mapped(NULL, SIZE, MAP_SHARED, memory_file(), 0);
}

static char *from_shm(void)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/test_shared.%d", getpid());
	fd = shm_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(shm_unlink(path), 0);
	ck_assert_int_eq(ftruncate(fd, SIZE), 0);
	return mapped(NULL, SIZE, MAP_SHARED, fd, 0);
}

static char *from_file(void)
{
	return mapped(NULL, SIZE, MAP_SHARED, real_file(), 0);
}

static char *from_sysv(void)
{
	int id = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600);
	char *address;

	ck_assert_int_ge(id, 0);
	address = shmat(id, NULL, 0);
	ck_assert_int_eq(shmctl(id, IPC_RMID, NULL), 0);
	ck_assert_ptr_ne(address, (void *)-1);
	return address;
}

static char *from_anonymous(void)
{
	return mapped(NULL, SIZE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static char *from_private(void)
{
	return mapped(NULL, SIZE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static char *from_private_file(void)
{
	return mapped(NULL, SIZE, MAP_PRIVATE, memory_file(), 0);
}

static char *from_heap(void)
{
	char *address = malloc(SIZE);

	ck_assert_ptr_nonnull(address);
	return address;
}

static char *from_program(void)
{
	static char bytes[SIZE];

	return bytes;
}

/* The kernel lists the halves separately, because their protection differs. */
static char *read_only_half(void)
{
	char *address = from_memfd();

	ck_assert_int_eq(mprotect(address + SIZE / 2, SIZE / 2, PROT_READ), 0);
	return address;
}

/* Four pages of one object in two mappings; the second one begins at @page of the object. */
static char *halves(off_t page)
{
	char *address = from_private();
	int fd = memory_file();

	mapped(address, SIZE / 2, MAP_SHARED, fd, 0);
	mapped(address + SIZE / 2, SIZE / 2, MAP_SHARED, fd, page * PAGE);
	return address;
}

static char *contiguous_halves(void)
{
	return halves(PAGES / 2);
}

static char *equal_halves(void)
{
	return halves(0);
}

static char *halves_with_a_gap(void)
{
	return halves(PAGES / 2 + 1);
}

static char *two_objects(void)
{
	char *address = from_memfd();

	return mapped(address + SIZE / 2, SIZE / 2, MAP_SHARED, memory_file(), SIZE / 2) - SIZE / 2;
}

static char *private_tail(void)
{
	char *address = from_memfd();

	mapped(address + SIZE - PAGE, PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return address;
}

static char *private_copy_in_the_middle(void)
{
	int fd = memory_file();
	char *address = mapped(NULL, SIZE, MAP_SHARED, fd, 0);

	mapped(address + PAGE, PAGE, MAP_PRIVATE, fd, PAGE);
	return address;
}

static char *unmapped_page(void)
{
	char *address = from_memfd();

	ck_assert_int_eq(munmap(address + PAGE, PAGE), 0);
	return address;
}

static char *unmapped_end(void)
{
	char *address = from_memfd();

	ck_assert_int_eq(munmap(address + SIZE - PAGE, PAGE), 0);
	return address;
}

static char *unmapped(void)
{
	char *address = from_memfd();

	ck_assert_int_eq(munmap(address, SIZE), 0);
	return address;
}

/* Each is tried as a whole, and without its first and last byte. */
static const struct {
	const char *what;
	char *(*map)(void);
	bool shared;
} memories[] = {
	{ "memfd", from_memfd, true },
	{ "POSIX shared memory", from_shm, true },
	{ "a file", from_file, true },
	{ "System V shared memory", from_sysv, true },
	{ "shared and anonymous", from_anonymous, true },
	{ "half of it read-only", read_only_half, true },
	{ "two mappings in a row", contiguous_halves, true },
	{ "private and anonymous", from_private, false },
	{ "a private copy of a file", from_private_file, false },
	{ "the heap", from_heap, false },
	{ "a variable", from_program, false },
	{ "the same pages twice", equal_halves, false },
	{ "two mappings with a gap in the object", halves_with_a_gap, false },
	{ "two objects", two_objects, false },
	{ "shared, then private", private_tail, false },
	{ "a private page in the middle", private_copy_in_the_middle, false },
	{ "an unmapped page in the middle", unmapped_page, false },
	{ "an unmapped page at the end", unmapped_end, false },
	{ "unmapped memory", unmapped, false },
};

START_TEST(only_shared_mappings_of_one_range_are_accepted)
{
	DAT_LMR_HANDLE lmr = POISON;
	char *address = memories[_i / 2].map();
	unsigned margin = _i % 2;

	ck_assert_msg(try_shared(&cookie, address + margin, SIZE - 2 * margin, &lmr) ==
			      (memories[_i / 2].shared ? DAT_SUCCESS : REFUSED),
		      "%s", memories[_i / 2].what);
	if (memories[_i / 2].shared) {
		ck_dat(lmr_free(lmr));
	} else {
		ck_assert_ptr_eq(lmr, POISON);
		ck_assert_uint_eq(pz->obj.uses, 0);
		ck_assert_uint_eq(fake_calls("mr_reg"), 0);
	}
}
END_TEST

START_TEST(create_fails_when_the_mappings_cannot_be_read)
{
	char *address = from_memfd();
	DAT_LMR_HANDLE lmr = POISON;

	limit_descriptors(0);
	ck_dat_is(try_shared(&cookie, address, SIZE, &lmr), NO_RESOURCE(MEMORY));
	ck_assert_ptr_eq(lmr, POISON);
	limit_descriptors(20);
	ck_dat(try_shared(&cookie, address, SIZE, &lmr));
}
END_TEST

/* ---- which ranges are the same ---- */

/*
 * A first region uses a cookie for two pages of an object, from its second page on. A second region
 * uses the same cookie for @count pages from the page @first on, and @skip bytes.
 */
static const struct {
	const char *why;
	bool other_object, other_mapping;
	int first, count, skip; /* pages, pages, bytes */
	DAT_RETURN want;
} second_regions[] = {
	{ "the same", false, false, 1, 2, 0, DAT_SUCCESS },
	{ "the same, at another address", false, true, 1, 2, 0, DAT_SUCCESS },
	{ "another object", true, true, 1, 2, 0, REFUSED },
	{ "a page too early", false, false, 0, 2, 0, REFUSED },
	{ "a page too late", false, false, 2, 2, 0, REFUSED },
	{ "a byte too late", false, false, 1, 2, 1, REFUSED },
	{ "too short", false, false, 1, 1, 0, REFUSED },
	{ "too long", false, true, 1, 3, 0, REFUSED },
};

START_TEST(equal_cookies_need_the_same_range)
{
	int fd = memory_file();
	char *one = mapped(NULL, 2 * SIZE, MAP_SHARED, fd, 0), *other = one;
	char again[DAT_LMR_COOKIE_SIZE];
	DAT_LMR_HANDLE first, second = POISON;

	if (second_regions[_i].other_mapping)
		other = mapped(NULL, 2 * SIZE, MAP_SHARED,
			       second_regions[_i].other_object ? memory_file() : fd, 0);
	memcpy(again, cookie, sizeof(again));
	ck_dat(try_shared(&cookie, one + PAGE, 2 * PAGE, &first));
	ck_assert_msg(try_shared(&again,
				 other + second_regions[_i].first * PAGE + second_regions[_i].skip,
				 (DAT_VLEN)second_regions[_i].count * PAGE,
				 &second) == second_regions[_i].want,
		      "%s", second_regions[_i].why);
	ck_assert_uint_eq(obj_count(ia, DAT_HANDLE_TYPE_LMR),
			  second_regions[_i].want == DAT_SUCCESS ? 2 : 1);
	ck_assert_uint_eq(pz->obj.uses, second_regions[_i].want == DAT_SUCCESS ? 2 : 1);
	ck_dat(lmr_free(first));
}
END_TEST

/* The offset of a page has at most 32 bits on a host of 32 bits. */
#define FAR ((off_t)1 << (SIZE_MAX > UINT32_MAX ? 44 : 43))

/* Offsets that differ only above their lower 32 bits, or by one page far into the object. */
static const struct {
	off_t first, second;
	DAT_RETURN want;
} offsets[] = {
	{ (off_t)1 << 32, (off_t)1 << 32, DAT_SUCCESS },
	{ 0, (off_t)1 << 32, REFUSED },
	{ (off_t)1 << 33, (off_t)1 << 32, REFUSED },
	{ FAR, FAR + PAGE, REFUSED },
};

START_TEST(offsets_are_compared_in_full)
{
	int fd = memory_file();
	DAT_LMR_HANDLE lmr;

	ck_assert_int_eq(ftruncate(fd, FAR + 2 * SIZE), 0);
	ck_dat(try_shared(&cookie, mapped(NULL, SIZE, MAP_SHARED, fd, offsets[_i].first), SIZE,
			  &lmr));
	ck_dat_is(try_shared(&cookie, mapped(NULL, SIZE, MAP_SHARED, fd, offsets[_i].second), SIZE,
			     &lmr),
		  offsets[_i].want);
}
END_TEST

START_TEST(system_v_segments_differ)
{
	char *one = from_sysv(), *other = from_sysv();
	DAT_LMR_HANDLE lmr;

	ck_dat(try_shared(&cookie, one, SIZE, &lmr));
	ck_dat_is(try_shared(&cookie, other, SIZE, &lmr), REFUSED);
	ck_dat(try_shared(&cookie, one, SIZE, &lmr));
}
END_TEST

/* The case is the byte in which two cookies differ. */
START_TEST(all_bytes_of_a_cookie_count)
{
	char a[DAT_LMR_COOKIE_SIZE] = { 0 }, b[DAT_LMR_COOKIE_SIZE] = { 0 };
	DAT_LMR_HANDLE first, second, third = POISON;
	char *object = from_memfd();

	b[_i] = 1;
	ck_dat(try_shared(&a, object, SIZE, &first));
	ck_dat(try_shared(&b, from_memfd(), SIZE, &second));
	ck_dat_is(try_shared(&b, object, SIZE, &third), REFUSED);
	ck_assert_ptr_eq(third, POISON);
}
END_TEST

START_TEST(an_object_may_have_two_cookies)
{
	char other[DAT_LMR_COOKIE_SIZE] = "another cookie", *object = from_memfd();
	DAT_LMR_HANDLE lmr;

	ck_dat(try_shared(&cookie, object, SIZE, &lmr));
	ck_dat(try_shared(&other, object, SIZE, &lmr));
}
END_TEST

START_TEST(a_cookie_is_free_after_its_last_region)
{
	char *object = from_memfd(), *other = from_memfd();
	DAT_LMR_HANDLE first, second, third;

	ck_dat(try_shared(&cookie, object, SIZE, &first));
	ck_dat(try_shared(&cookie, object, SIZE, &second));
	ck_dat(lmr_free(first));
	ck_dat_is(try_shared(&cookie, other, SIZE, &third), REFUSED);
	ck_dat(lmr_free(second));
	ck_dat(try_shared(&cookie, other, SIZE, &third));
	ck_dat_is(try_shared(&cookie, object, SIZE, &first), REFUSED);
}
END_TEST

START_TEST(a_failed_create_takes_no_cookie)
{
	char *object = from_memfd(), *other = from_memfd();
	DAT_LMR_HANDLE lmr;

	fake_fail("mr_reg", ENOMEM, 1);
	ck_dat_is(try_shared(&cookie, object, SIZE, &lmr), NO_RESOURCE(MEMORY_REGION));
	ck_dat(try_shared(&cookie, other, SIZE, &lmr));
	ck_dat(lmr_free(lmr));
	ck_dat_is(try_shared(&cookie, from_private(), SIZE, &lmr), REFUSED);
	ck_dat(try_shared(&cookie, object, SIZE, &lmr));
	/* nor does it release the cookie that another region uses */
	fake_fail("mr_reg", ENOMEM, 1);
	ck_dat_is(try_shared(&cookie, object, SIZE, &lmr), NO_RESOURCE(MEMORY_REGION));
	ck_dat_is(try_shared(&cookie, other, SIZE, &lmr), REFUSED);
}
END_TEST

START_TEST(cookies_for_which_there_is_no_memory_take_none)
{
	const unsigned many = 1000;
	char *object = from_sysv();
	DAT_LMR_HANDLE lmr;
	size_t used = 0;

	tree_is_full = true;
	for (unsigned i = 0; i < 2 * many; i++) {
		ck_dat_is(try_shared(&cookie, object, SIZE, &lmr), NO_RESOURCE(MEMORY));
		if (i == many) /* all is as large as it will be */
			used = memory_in_use();
	}
	ck_assert_uint_lt(memory_in_use(), used + many * LEAST_BLOCK);
	tree_is_full = false;
	ck_dat(try_shared(&cookie, object, SIZE, &lmr));
}
END_TEST

START_TEST(a_failed_free_keeps_the_cookie)
{
	char *object = from_memfd();
	DAT_LMR_HANDLE lmr, other;

	ck_dat(try_shared(&cookie, object, SIZE, &lmr));
	fake_fail("mr_dereg", EIO, 1);
	ck_dat_is(lmr_free(lmr), DAT_ERROR(DAT_INTERNAL_ERROR, 0));
	ck_dat_is(try_shared(&cookie, from_memfd(), SIZE, &other), REFUSED);
	ck_dat(lmr_free(lmr));
}
END_TEST

START_TEST(cookies_are_shared_by_the_ias_of_a_process)
{
	struct ia *first = ia;
	DAT_LMR_HANDLE lmr;

	ck_dat(try_shared(&cookie, from_memfd(), SIZE, &lmr));
	setup();
	ck_dat_is(try_shared(&cookie, from_memfd(), SIZE, &lmr), REFUSED);
	ck_dat(ia_close(first, DAT_CLOSE_ABRUPT_FLAG)); /* frees its regions */
	ck_dat(try_shared(&cookie, from_memfd(), SIZE, &lmr));
}
END_TEST

START_TEST(a_region_copies_its_cookie)
{
	char given[DAT_LMR_COOKIE_SIZE], original[DAT_LMR_COOKIE_SIZE], *object = from_memfd();
	DAT_LMR_HANDLE first, second;
	DAT_LMR_PARAM param;

	for (int i = 0; i < DAT_LMR_COOKIE_SIZE; i++)
		original[i] = given[i] = (char)(i - 3); /* a zero among them */
	ck_dat(try_shared(&given, object, SIZE, &first));
	ck_dat(try_shared(&given, object, SIZE, &second));
	memset(given, 0x5a, sizeof(given));
	ck_dat(lmr_free(first));
	ck_dat(lmr_query(second, DAT_LMR_FIELD_ALL, &param));
	ck_assert_int_eq(param.mem_type, DAT_MEM_TYPE_SHARED_VIRTUAL);
	ck_assert_ptr_eq(param.region_desc.for_shared_memory.virtual_address, object);
	ck_assert_ptr_ne(param.region_desc.for_shared_memory.shared_memory_id, &given);
	ck_assert_mem_eq(*param.region_desc.for_shared_memory.shared_memory_id, original,
			 sizeof(original));
	ck_assert_uint_eq(param.length, SIZE);
}
END_TEST

/* ---- two threads ---- */

static char *contended[2];

/* Of two threads only one has the cookie at a time, unless both use it for the same object. */
static void *create_and_free_shared(void *arg)
{
	char *object = contended[(uintptr_t)arg];

	for (unsigned n = 0; n < 300; n++) {
		DAT_LMR_HANDLE lmr;
		DAT_RETURN ret = try_shared(&cookie, object, SIZE, &lmr);

		if (ret == DAT_SUCCESS)
			ck_dat(lmr_free(lmr));
		else
			ck_dat_is(ret, contended[0] == contended[1] ? DAT_SUCCESS : REFUSED);
	}
	return NULL;
}

START_TEST(threads_contend_for_a_cookie)
{
	pthread_t threads[2];
	DAT_LMR_HANDLE lmr;

	contended[0] = from_memfd();
	contended[1] = _i ? contended[0] : from_memfd();
	for (uintptr_t i = 0; i < 2; i++)
		threads[i] = consumer_thread_start(create_and_free_shared, (void *)i);
	for (int i = 0; i < 2; i++)
		consumer_thread_join(threads[i]);
	ck_dat(try_shared(&cookie, from_memfd(), SIZE, &lmr));
}
END_TEST

int main(int argc, char **argv)
{
	TCase *cases = tcase_create("shared");

	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_add_loop_test(cases, only_shared_mappings_of_one_range_are_accepted, 0,
			    2 * COUNT(memories));
	tcase_add_test(cases, create_fails_when_the_mappings_cannot_be_read);
	tcase_add_loop_test(cases, equal_cookies_need_the_same_range, 0, COUNT(second_regions));
	tcase_add_loop_test(cases, offsets_are_compared_in_full, 0, COUNT(offsets));
	tcase_add_test(cases, system_v_segments_differ);
	tcase_add_loop_test(cases, all_bytes_of_a_cookie_count, 0, DAT_LMR_COOKIE_SIZE);
	tcase_add_test(cases, an_object_may_have_two_cookies);
	tcase_add_test(cases, a_cookie_is_free_after_its_last_region);
	tcase_add_test(cases, a_failed_create_takes_no_cookie);
	tcase_add_test(cases, cookies_for_which_there_is_no_memory_take_none);
	tcase_add_test(cases, a_failed_free_keeps_the_cookie);
	tcase_add_test(cases, cookies_are_shared_by_the_ias_of_a_process);
	tcase_add_test(cases, a_region_copies_its_cookie);
	tcase_add_loop_test(cases, threads_contend_for_a_cookie, 0, 2);
	return run_unit_cases(argc, argv);
}
