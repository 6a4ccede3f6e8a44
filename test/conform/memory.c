/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection zones and local memory regions: what can be registered, who then reaches it, and until
 * when.
 */
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <linux/capability.h>

#include "conform.h"

#define PAGE ((size_t)4096)

struct region {
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT local;
	DAT_RMR_CONTEXT remote;
};

static DAT_RETURN try_register(const struct side *side, DAT_MEM_TYPE type,
			       DAT_REGION_DESCRIPTION description, size_t length, DAT_PZ_HANDLE pz,
			       DAT_MEM_PRIV_FLAGS priv, struct region *region)
{
	const struct region before = *region;
	DAT_RETURN ret = dat_lmr_create(side->ia, type, description, length, pz, priv, &region->lmr,
					&region->local, &region->remote, NULL, NULL);

	if (ret != DAT_SUCCESS)
		ck_assert_mem_eq(region, &before, sizeof(before));
	return ret;
}

static DAT_RETURN register_at(const struct side *side, void *at, size_t length,
			      DAT_MEM_PRIV_FLAGS priv, struct region *region)
{
	const DAT_REGION_DESCRIPTION description = { .for_va = at };

	return try_register(side, DAT_MEM_TYPE_VIRTUAL, description, length, side->pz, priv,
			    region);
}

/* All of a side's memory once more. */
static struct region region_of(const struct side *side, DAT_MEM_TYPE type, DAT_PZ_HANDLE pz,
			       DAT_MEM_PRIV_FLAGS priv)
{
	DAT_REGION_DESCRIPTION description = { .for_va = side->memory };
	struct region region = { .lmr = NULL };

	if (type == DAT_MEM_TYPE_LMR)
		description.for_lmr_handle = side->lmr;
	ck_dat(try_register(side, type, description, MEMORY, pz, priv, &region));
	return region;
}

static struct region region_with(const struct side *side, DAT_MEM_PRIV_FLAGS priv)
{
	return region_of(side, DAT_MEM_TYPE_VIRTUAL, side->pz, priv);
}

static DAT_LMR_TRIPLET here(const struct side *side, const struct region *region, size_t offset,
			    size_t length)
{
	DAT_LMR_TRIPLET iov = segment(side, offset, length);

	iov.lmr_context = region->local;
	return iov;
}

/* In b's memory. */
static DAT_RMR_TRIPLET there(const struct region *region, size_t offset, size_t length)
{
	DAT_RMR_TRIPLET remote = target(&b, offset, length);

	remote.rmr_context = region->remote;
	return remote;
}

/* ---- zones ---- */

/* By each kind of tenant. What was refused has changed nothing. */
START_TEST(a_zone_stays_while_anybody_lives_in_it)
{
	struct region region;
	DAT_PZ_HANDLE pz;
	DAT_RMR_HANDLE rmr;
	DAT_PZ_PARAM param;
	DAT_EP_HANDLE ep;

	open_both();
	ck_dat(dat_pz_create(a.ia, &pz));
	region = region_of(&a, DAT_MEM_TYPE_VIRTUAL, pz, DAT_MEM_PRIV_ALL_FLAG);
	ck_dat_fails(dat_pz_free(pz), DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE);
	ck_dat(dat_lmr_free(region.lmr));
	ck_dat(dat_rmr_create(pz, &rmr));
	ck_dat_fails(dat_pz_free(pz), DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE);
	ck_dat(dat_rmr_free(rmr));
	ck_dat(dat_ep_create(a.ia, pz, a.recv_evd, a.request_evd, a.connect_evd, NULL, &ep));
	ck_dat_fails(dat_pz_free(pz), DAT_INVALID_STATE, DAT_INVALID_STATE_PZ_IN_USE);
	ck_dat(dat_ep_free(ep));
	region = region_of(&a, DAT_MEM_TYPE_VIRTUAL, pz, DAT_MEM_PRIV_ALL_FLAG);
	ck_dat(dat_lmr_free(region.lmr));
	ck_dat(dat_pz_query(pz, DAT_PZ_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.ia_handle, a.ia);
	ck_dat(dat_pz_free(pz));
	ck_dat_fails(dat_pz_free(pz), DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_PZ);
	ck_dat_fails(dat_pz_query(pz, DAT_PZ_FIELD_ALL, &param), DAT_INVALID_HANDLE,
		     DAT_INVALID_HANDLE_PZ);
	close_both();
}
END_TEST

/* More bytes than a device would copy at the post, without a look at where they come from. */
START_TEST(an_endpoint_sends_nothing_of_another_zone)
{
	DAT_LMR_TRIPLET iov;
	struct region region;
	DAT_PZ_HANDLE pz;

	open_connected();
	ck_dat(dat_pz_create(a.ia, &pz));
	region = region_of(&a, DAT_MEM_TYPE_VIRTUAL, pz, DAT_MEM_PRIV_ALL_FLAG);
	iov = here(&a, &region, 0, 4 * PAGE);
	fill(&a, 1);
	fill(&b, 2);
	post_recv(&b, 1, 0, MEMORY);
	ck_dat(dat_ep_post_send(a.ep, 1, &iov, cookie_of(2), DAT_COMPLETION_DEFAULT_FLAG));
	expect_dto(a.request_evd, a.ep, 2, transport()->bad_segment, 0);
	expect_connection(&a, DAT_CONNECTION_EVENT_BROKEN);
	expect_end(&b);
	expect_dto(b.recv_evd, b.ep, 1, DAT_DTO_ERR_FLUSHED, 0);
	check_filled(&b, 2);
	ck_dat(dat_lmr_free(region.lmr));
	ck_dat(dat_pz_free(pz));
	close_both();
}
END_TEST

/* ---- registering ---- */

START_TEST(a_byte_at_an_odd_address_any_number_of_times)
{
	DAT_REGION_DESCRIPTION odd;
	DAT_LMR_CONTEXT local[2];
	DAT_RMR_CONTEXT remote[2];
	DAT_LMR_HANDLE lmr[2];
	DAT_LMR_PARAM param;
	DAT_VADDR address;
	DAT_VLEN size;

	open_both();
	odd.for_va = a.memory + 4095;
	for (int n = 0; n < 2; n++) {
		ck_dat(dat_lmr_create(a.ia, DAT_MEM_TYPE_VIRTUAL, odd, 1, a.pz,
				      DAT_MEM_PRIV_ALL_FLAG, &lmr[n], &local[n], &remote[n], &size,
				      &address));
		ck_assert_uint_le(address, (uintptr_t)odd.for_va);
		ck_assert_uint_ge(address + size, (uintptr_t)odd.for_va + 1);
	}
	ck_assert_uint_ne(local[0], local[1]);
	ck_assert_uint_ne(remote[0], remote[1]);
	ck_dat(dat_lmr_free(lmr[0]));
	ck_dat(dat_lmr_query(lmr[1], DAT_LMR_FIELD_ALL, &param));
	ck_assert_ptr_eq(param.ia_handle, a.ia);
	ck_assert_ptr_eq(param.region_desc.for_va, odd.for_va);
	ck_assert_uint_eq(param.length, 1);
	ck_assert_uint_eq(param.lmr_context, local[1]);
	ck_dat(dat_lmr_free(lmr[1]));
	ck_dat_fails(dat_lmr_free(lmr[1]), DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_LMR);
	close_both();
}
END_TEST

START_TEST(what_is_not_asked_for_is_not_told)
{
	DAT_REGION_DESCRIPTION description;
	DAT_LMR_HANDLE lmr;

	open_both();
	description.for_va = a.memory;
	ck_dat(dat_lmr_create(a.ia, DAT_MEM_TYPE_VIRTUAL, description, 1, a.pz,
			      DAT_MEM_PRIV_ALL_FLAG, &lmr, NULL, NULL, NULL, NULL));
	ck_dat(dat_lmr_free(lmr));
	ck_dat_fails(dat_lmr_create(a.ia, DAT_MEM_TYPE_VIRTUAL, description, 1, a.pz,
				    DAT_MEM_PRIV_ALL_FLAG, NULL, NULL, NULL, NULL, NULL),
		     DAT_INVALID_PARAMETER, DAT_INVALID_ARG7);
	close_both();
}
END_TEST

static const struct {
	bool nowhere; /* at address 0 */
	unsigned type, priv;
	DAT_VLEN length;
	DAT_RETURN subtype; /* of DAT_INVALID_PARAMETER */
} wrong[] = {
	{ false, 9, DAT_MEM_PRIV_ALL_FLAG, 1, DAT_INVALID_ARG2 },
	{ true, DAT_MEM_TYPE_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG, 1, DAT_INVALID_ARG3 },
	/* has no cookie */
	{ false, DAT_MEM_TYPE_SHARED_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG, 1, DAT_INVALID_ARG3 },
	{ false, DAT_MEM_TYPE_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG, 0, DAT_INVALID_ARG4 },
	{ false, DAT_MEM_TYPE_SO_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG, 0, DAT_INVALID_ARG4 },
	{ false, DAT_MEM_TYPE_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG, UINT64_MAX, DAT_INVALID_ARG4 },
	{ false, DAT_MEM_TYPE_VIRTUAL, 0x4, 1, DAT_INVALID_ARG6 },
	{ false, DAT_MEM_TYPE_VIRTUAL, DAT_MEM_PRIV_ALL_FLAG | 0x40, 1, DAT_INVALID_ARG6 },
};

START_TEST(wrong_arguments_are_named)
{
	open_both();
	for (int n = 0; n < COUNT(wrong); n++) {
		DAT_REGION_DESCRIPTION description = { .for_shared_memory = { a.memory, NULL } };
		struct region region = { .lmr = &a, .local = 1, .remote = 2 };

		if (wrong[n].nowhere)
			description.for_va = NULL;
		ck_dat_fails(try_register(&a, (DAT_MEM_TYPE)wrong[n].type, description,
					  wrong[n].length, a.pz, (DAT_MEM_PRIV_FLAGS)wrong[n].priv,
					  &region),
			     DAT_INVALID_PARAMETER, wrong[n].subtype);
	}
	close_both();
}
END_TEST

START_TEST(pages_that_are_not_there_or_not_ours_to_write)
{
	struct region region = { .lmr = NULL };
	char *pages, *constant;

	open_both();
	constant = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* last, so that nothing new fills the hole */
	ck_assert_int_eq(munmap(pages + PAGE, PAGE), 0);
	ck_dat_fails(register_at(&a, pages, 3 * PAGE, DAT_MEM_PRIV_ALL_FLAG, &region),
		     DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
	ck_dat_fails(register_at(&a, pages + PAGE, 1, DAT_MEM_PRIV_READ_FLAG, &region),
		     DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
	ck_dat_fails(register_at(&a, constant, PAGE, DAT_MEM_PRIV_LOCAL_WRITE_FLAG, &region),
		     DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE);
	ck_dat(register_at(&a, constant, PAGE, DAT_MEM_PRIV_READ_FLAG, &region));
	ck_dat(dat_lmr_free(region.lmr));
	munmap(constant, PAGE);
	munmap(pages, PAGE);
	munmap(pages + 2 * PAGE, PAGE);
	close_both();
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

START_TEST(more_than_may_be_locked)
{
	const struct rlimit limit = { 1 << 20, 1 << 20 };
	struct region region = { .lmr = NULL };
	char *at;
	int log;

	open_both();
	at = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	give_up_pinning_all();
	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	log = capture_stderr();
	ck_dat_fails(register_at(&a, at, 4 << 20, DAT_MEM_PRIV_ALL_FLAG, &region),
		     DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION);
	ck_assert_int_eq(captured_lines(log), 1);
	ck_assert_ptr_nonnull(strstr(captured_text(log), "4194304 bytes"));
	ck_assert_ptr_nonnull(strstr(captured_text(log), "1024 KiB"));
	ck_dat(register_at(&a, at, PAGE, DAT_MEM_PRIV_ALL_FLAG, &region));
	ck_dat(dat_lmr_free(region.lmr));
	munmap(at, 4 << 20);
	close_both();
}
END_TEST

/* ---- freeing ---- */

/*
 * While the peer is at it. What came through came before; the first one after is refused, and the
 * rest is flushed.
 */
START_TEST(a_region_that_is_freed_is_out_of_reach)
{
	enum { BEFORE = 4, ALL = 8, SIZE = 30000 };
	DAT_DTO_COMPLETION_STATUS worst = DAT_DTO_SUCCESS;
	struct region region;
	unsigned posted;

	open_connected();
	fill(&b, 1);
	region = region_with(&b, DAT_MEM_PRIV_ALL_FLAG);
	for (posted = 0; posted < BEFORE; posted++)
		post_read(posted, 0, there(&region, 0, SIZE));
	ck_dat(dat_lmr_free(region.lmr));
	/* the connection may be ending by now: nobody asked for that */
	for (; posted < ALL; posted++)
		post_read(posted, 0, there(&region, 0, SIZE));
	expect_end(&a);
	expect_end(&b);
	for (unsigned n = 0; n < posted; n++) {
		DAT_EVENT event = expect(a.request_evd, DAT_DTO_COMPLETION_EVENT);
		const DAT_DTO_COMPLETION_EVENT_DATA *dto =
			&event.event_data.dto_completion_event_data;

		ck_assert_uint_eq(dto->user_cookie.as_64, n);
		ck_assert(dto->status != DAT_DTO_SUCCESS || n < BEFORE);
		if (worst != DAT_DTO_SUCCESS)
			ck_assert_int_eq(dto->status, DAT_DTO_ERR_FLUSHED);
		else if (dto->status != DAT_DTO_SUCCESS && transport()->tells_remote)
			ck_assert_int_eq(dto->status, DAT_DTO_ERR_REMOTE_ACCESS);
		worst = dto->status;
	}
	ck_assert_int_ne(worst, DAT_DTO_SUCCESS);
	ck_dat_fails(dat_lmr_free(region.lmr), DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_LMR);
	connect_again();
	expect_read(target(&b, 0, SIZE)); /* the other region of the same bytes */
	disconnect_both(DAT_CLOSE_ABRUPT_FLAG);
	close_both();
}
END_TEST

/* ---- shared memory ---- */

/* They differ in the last byte alone. */
static char one_name[DAT_LMR_COOKIE_SIZE] = "forty\0bytes, and every one does count, A";
static char other_name[DAT_LMR_COOKIE_SIZE] = "forty\0bytes, and every one does count, B";

struct shared {
	int fd;
	char *at;
	struct region region;
};

static struct shared shared_make(void)
{
	struct shared object = { .fd = memfd_create("shared", 0) };

	ck_assert_int_ge(object.fd, 0);
	ck_assert_int_eq(ftruncate(object.fd, PAGE), 0);
	object.at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, object.fd, 0);
	ck_assert_ptr_ne(object.at, MAP_FAILED);
	return object;
}

static void shared_drop(struct shared *object)
{
	munmap(object->at, PAGE);
	close(object->fd);
}

static DAT_RETURN shared_register(const struct side *side, struct shared *object,
				  DAT_LMR_COOKIE name)
{
	const DAT_REGION_DESCRIPTION description = { .for_shared_memory = { object->at, name } };

	return try_register(side, DAT_MEM_TYPE_SHARED_VIRTUAL, description, PAGE, side->pz,
			    DAT_MEM_PRIV_ALL_FLAG, &object->region);
}

static DAT_RMR_TRIPLET shared_target(const struct shared *object)
{
	return (DAT_RMR_TRIPLET){
		.rmr_context = object->region.remote,
		.target_address = (uintptr_t)object->at,
		.segment_length = PAGE,
	};
}

/* Another process: its own mapping of the object, its own adapters; a peer writes there. */
static _Noreturn void sharer(struct shared *object, int fd)
{
	char word;

	object->at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, object->fd, 0);
	ck_assert_ptr_ne(object->at, MAP_FAILED);
	open_connected();
	ck_dat(shared_register(&b, object, &one_name));
	expect_write(shared_target(object));
	ck_assert_int_eq(send(fd, "w", 1, MSG_NOSIGNAL), 1);
	ck_assert_int_eq(recv(fd, &word, 1, 0), 0); /* until the other is done */
	ck_dat(dat_lmr_free(object->region.lmr));
	disconnect_both(DAT_CLOSE_ABRUPT_FLAG);
	close_both();
	_exit(0);
}

START_TEST(one_cookie_is_one_memory_in_two_processes)
{
	struct shared object = shared_make();
	int ends[2], status;
	char word;
	pid_t pid;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pid = fork(); /* before any call of DAT */
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		close(ends[0]);
		sharer(&object, ends[1]);
	}
	close(ends[1]);
	open_connected();
	ck_dat(shared_register(&b, &object, &one_name));
	ck_assert_int_eq(recv(ends[0], &word, 1, 0), 1);
	fill(&a, 3); /* as expect_write in the other */
	ck_assert_mem_eq(object.at, a.memory, PAGE);
	memset(object.at, 'x', PAGE);
	post_read(1, 0, shared_target(&object));
	expect_dto(a.request_evd, a.ep, 1, DAT_DTO_SUCCESS, PAGE);
	ck_assert_mem_eq(a.memory, object.at, PAGE);
	close(ends[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		      "the other ended with status %#x", status);
	ck_dat(dat_lmr_free(object.region.lmr));
	shared_drop(&object);
	disconnect_both(DAT_CLOSE_ABRUPT_FLAG);
	close_both();
}
END_TEST

START_TEST(a_cookie_names_one_object)
{
	struct shared first = shared_make(), second = shared_make(), alias;
	DAT_LMR_PARAM param;

	open_both();
	ck_assert_int_eq(a.provider.lmr_mem_types_supported, 3);
	ck_dat(shared_register(&a, &first, &one_name));
	ck_dat_fails(shared_register(&a, &second, &one_name), DAT_INVALID_STATE, DAT_NO_SUBTYPE);
	ck_dat(shared_register(&a, &second, &other_name));
	alias = first;
	ck_dat(shared_register(&a, &alias, &one_name)); /* the same once more */
	ck_dat(dat_lmr_query(second.region.lmr, DAT_LMR_FIELD_ALL, &param));
	ck_assert_int_eq(param.mem_type, DAT_MEM_TYPE_SHARED_VIRTUAL);
	ck_assert_ptr_eq(param.region_desc.for_shared_memory.virtual_address, second.at);
	ck_assert_mem_eq(*param.region_desc.for_shared_memory.shared_memory_id, other_name,
			 DAT_LMR_COOKIE_SIZE);
	ck_dat(dat_lmr_free(second.region.lmr));
	ck_dat(dat_lmr_free(first.region.lmr));
	ck_dat_fails(shared_register(&a, &second, &one_name), DAT_INVALID_STATE, DAT_NO_SUBTYPE);
	ck_dat(dat_lmr_free(alias.region.lmr));
	ck_dat(shared_register(&a, &second, &one_name)); /* nobody goes by that name any more */
	ck_dat(dat_lmr_free(second.region.lmr));
	shared_drop(&first);
	shared_drop(&second);
	close_both();
}
END_TEST

START_TEST(memory_of_one_process_has_no_cookie)
{
	struct shared private = { .at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };

	open_both();
	ck_dat_fails(shared_register(&a, &private, &one_name), DAT_INVALID_STATE, DAT_NO_SUBTYPE);
	munmap(private.at, PAGE);
	close_both();
}
END_TEST

/* ---- privileges ---- */

START_TEST(a_receive_needs_local_write)
{
	struct region region;
	DAT_LMR_TRIPLET iov;

	open_connected();
	fill(&b, 1);
	region = region_with(&b, DAT_MEM_PRIV_LOCAL_READ_FLAG);
	iov = here(&b, &region, 0, 64);
	ck_dat(dat_ep_post_recv(b.ep, 1, &iov, cookie_of(1), DAT_COMPLETION_DEFAULT_FLAG));
	post_send(&a, 2, 0, 64, DAT_COMPLETION_SUPPRESS_FLAG);
	expect_dto(b.recv_evd, b.ep, 1, transport()->bad_receive, 0);
	expect_end(&a);
	expect_end(&b);
	check_filled(&b, 1);
	ck_dat(dat_lmr_free(region.lmr));
	close_both();
}
END_TEST

START_TEST(a_read_needs_local_write)
{
	DAT_RMR_TRIPLET remote;
	struct region region;
	DAT_LMR_TRIPLET iov;

	open_connected();
	fill(&a, 1);
	region = region_with(&a, DAT_MEM_PRIV_LOCAL_READ_FLAG);
	iov = here(&a, &region, 0, 64);
	remote = target(&b, 0, 64);
	ck_dat(dat_ep_post_rdma_read(a.ep, 1, &iov, cookie_of(1), &remote,
				     DAT_COMPLETION_DEFAULT_FLAG));
	expect_dto(a.request_evd, a.ep, 1, DAT_DTO_ERR_LOCAL_PROTECTION, 0);
	expect_end(&a);
	expect_end(&b);
	check_filled(&a, 1);
	ck_dat(dat_lmr_free(region.lmr));
	close_both();
}
END_TEST

START_TEST(peers_write_what_is_theirs_to_write)
{
	struct region region;

	open_connected();
	region = region_with(&b, (DAT_MEM_PRIV_FLAGS)(LOCAL | DAT_MEM_PRIV_REMOTE_READ_FLAG));
	expect_read(there(&region, 100, 64));
	expect_write_refused(there(&region, 100, 64));
	ck_dat(dat_lmr_free(region.lmr));
	/* local write goes with it, on whatever device */
	region = region_with(&b, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
	expect_write(there(&region, 100, 64));
	ck_dat(dat_lmr_free(region.lmr));
	disconnect_both(DAT_CLOSE_ABRUPT_FLAG);
	close_both();
}
END_TEST

START_TEST(peers_read_what_is_theirs_to_read)
{
	struct region region;

	open_connected();
	region = region_with(&b, (DAT_MEM_PRIV_FLAGS)(LOCAL | DAT_MEM_PRIV_REMOTE_WRITE_FLAG));
	expect_write(there(&region, 100, 64));
	expect_read_refused(there(&region, 100, 64));
	ck_dat(dat_lmr_free(region.lmr));
	disconnect_both(DAT_CLOSE_ABRUPT_FLAG);
	close_both();
}
END_TEST

START_TEST(who_gives_no_right_has_no_context_to_give)
{
	open_both();
	for (unsigned bits = 0; bits < 16; bits++) {
		const unsigned priv = (bits & 3) | (bits & 12) << 2;
		struct region region = region_with(&a, (DAT_MEM_PRIV_FLAGS)priv);
		DAT_LMR_PARAM param;

		ck_assert_int_eq(region.remote != 0, (priv & REMOTE) != 0);
		ck_dat(dat_lmr_query(region.lmr, DAT_LMR_FIELD_ALL, &param));
		ck_assert_uint_eq(param.mem_priv, priv);
		ck_assert_uint_eq(param.rmr_context, region.remote);
		ck_dat(dat_lmr_free(region.lmr));
	}
	close_both();
}
END_TEST

/* ---- order ---- */

/* What programs rely on that look at memory for what has come. */
START_TEST(the_last_byte_of_a_write_comes_last)
{
	static const DAT_MEM_TYPE types[] = { DAT_MEM_TYPE_VIRTUAL, DAT_MEM_TYPE_SO_VIRTUAL,
					      DAT_MEM_TYPE_LMR };
	enum { LAST = MEMORY - 1 };
	struct region region;
	DAT_LMR_PARAM param;

	open_connected();
	for (unsigned n = 0; n < COUNT(types); n++) {
		region = region_of(&b, types[n], b.pz, DAT_MEM_PRIV_ALL_FLAG);
		ck_dat(dat_lmr_query(region.lmr, DAT_LMR_FIELD_MEM_TYPE, &param));
		ck_assert_int_eq(param.mem_type, types[n]);
		for (unsigned turn = 0; turn < 5; turn++) {
			memset(b.memory, 0, MEMORY);
			memset(a.memory, 1 + (int)turn, MEMORY);
			post_write(turn, 0, there(&region, 0, MEMORY));
			while (!__atomic_load_n(&b.memory[LAST], __ATOMIC_ACQUIRE))
				sched_yield();
			ck_assert_mem_eq(b.memory, a.memory, MEMORY);
			expect_dto(a.request_evd, a.ep, turn, DAT_DTO_SUCCESS, MEMORY);
		}
		ck_dat(dat_lmr_free(region.lmr));
	}
	disconnect_both(DAT_CLOSE_GRACEFUL_FLAG);
	close_both();
}
END_TEST

static void prefix_name(struct side *side)
{
	static const char prefix[] = "RO_AWARE_";

	ck_assert_uint_lt(strlen(side->name) + strlen(prefix), sizeof(side->name));
	memmove(side->name + strlen(prefix), side->name, strlen(side->name) + 1);
	memcpy(side->name, prefix, strlen(prefix));
}

/* Of either kind; what a completion says is there holds for both. */
START_TEST(opens_for_relaxed_ordering)
{
	static const DAT_MEM_TYPE types[] = { DAT_MEM_TYPE_VIRTUAL, DAT_MEM_TYPE_SO_VIRTUAL };
	struct region region;

	choose_names();
	prefix_name(&a);
	prefix_name(&b);
	side_open(&a);
	side_open(&b);
	connect_both();
	for (unsigned n = 0; n < COUNT(types); n++) {
		region = region_of(&b, types[n], b.pz, DAT_MEM_PRIV_ALL_FLAG);
		expect_write(there(&region, 100, MEMORY / 2));
		expect_read(there(&region, 100, MEMORY / 2));
		ck_dat(dat_lmr_free(region.lmr));
	}
	disconnect_both(DAT_CLOSE_GRACEFUL_FLAG);
	close_both();
}
END_TEST

/* ---- regions over regions ---- */

static DAT_RETURN derive(const struct region *source, DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS priv,
			 struct region *region)
{
	const DAT_REGION_DESCRIPTION description = { .for_lmr_handle = source->lmr };

	/* a length is not looked at */
	return try_register(&b, DAT_MEM_TYPE_LMR, description, 0, pz, priv, region);
}

START_TEST(a_region_over_a_region_has_a_life_of_its_own)
{
	struct region parent, child = { .lmr = NULL };
	DAT_LMR_PARAM param;

	open_connected();
	parent = region_with(&b, DAT_MEM_PRIV_ALL_FLAG);
	ck_dat(derive(&parent, b.pz, DAT_MEM_PRIV_READ_FLAG, &child));
	ck_assert_uint_ne(child.local, parent.local);
	ck_assert_uint_ne(child.remote, parent.remote);
	ck_dat(dat_lmr_query(child.lmr, DAT_LMR_FIELD_ALL, &param));
	ck_assert_int_eq(param.mem_type, DAT_MEM_TYPE_LMR);
	ck_assert_ptr_eq(param.region_desc.for_lmr_handle, parent.lmr);
	ck_assert_uint_eq(param.length, MEMORY);
	expect_read(there(&child, 100, 64));
	expect_write_refused(there(&child, 100, 64)); /* a right that only the parent gives */
	expect_write(there(&parent, 100, 64));
	ck_dat(dat_lmr_free(parent.lmr));
	expect_write_refused(there(&parent, 100, 64));
	expect_read(there(&child, 100, 64));
	ck_dat(dat_lmr_free(child.lmr));
	disconnect_both(DAT_CLOSE_ABRUPT_FLAG);
	close_both();
}
END_TEST

START_TEST(a_region_over_a_region_has_its_own_zone)
{
	struct region parent, child = { .lmr = NULL };
	DAT_PZ_HANDLE pz;

	open_connected();
	ck_dat(dat_pz_create(b.ia, &pz));
	parent = region_of(&b, DAT_MEM_TYPE_VIRTUAL, pz, DAT_MEM_PRIV_LOCAL_READ_FLAG);
	ck_dat(derive(&parent, b.pz, DAT_MEM_PRIV_ALL_FLAG, &child));
	expect_write(there(&child, 100, 64));
	ck_dat(dat_lmr_free(child.lmr));
	ck_dat(derive(&parent, pz, DAT_MEM_PRIV_ALL_FLAG, &child));
	expect_write_refused(there(&child, 100, 64));
	ck_dat(dat_lmr_free(child.lmr));
	ck_dat(dat_lmr_free(parent.lmr));
	ck_dat(dat_pz_free(pz));
	disconnect_both(DAT_CLOSE_ABRUPT_FLAG);
	close_both();
}
END_TEST

START_TEST(a_region_that_is_freed_has_no_children)
{
	struct region parent, child = { .lmr = NULL };

	open_both();
	parent = region_with(&b, DAT_MEM_PRIV_ALL_FLAG);
	ck_dat(dat_lmr_free(parent.lmr));
	ck_dat_fails(derive(&parent, b.pz, DAT_MEM_PRIV_READ_FLAG, &child), DAT_INVALID_HANDLE,
		     DAT_INVALID_HANDLE_LMR);
	close_both();
}
END_TEST

void add_memory_cases(TCase *cases)
{
	const struct transport *on = transport();

	tcase_add_test(cases, a_zone_stays_while_anybody_lives_in_it);
	tcase_add_test(cases, an_endpoint_sends_nothing_of_another_zone);
	tcase_add_test(cases, a_byte_at_an_odd_address_any_number_of_times);
	tcase_add_test(cases, what_is_not_asked_for_is_not_told);
	tcase_add_test(cases, wrong_arguments_are_named);
	add_case(cases, pages_that_are_not_there_or_not_ours_to_write, on->sees_pages,
		 "it looks at no pages");
	add_case(cases, more_than_may_be_locked, on->sees_pages, "it locks no pages");
	tcase_add_test(cases, a_region_that_is_freed_is_out_of_reach);
	tcase_add_test(cases, one_cookie_is_one_memory_in_two_processes);
	tcase_add_test(cases, a_cookie_names_one_object);
	tcase_add_test(cases, memory_of_one_process_has_no_cookie);
	tcase_add_test(cases, a_receive_needs_local_write);
	tcase_add_test(cases, a_read_needs_local_write);
	tcase_add_test(cases, peers_write_what_is_theirs_to_write);
	add_case(cases, peers_read_what_is_theirs_to_read, on->guards_reads,
		 "peers read all that is registered");
	tcase_add_test(cases, who_gives_no_right_has_no_context_to_give);
	tcase_add_test(cases, the_last_byte_of_a_write_comes_last);
	tcase_add_test(cases, opens_for_relaxed_ordering);
	tcase_add_test(cases, a_region_over_a_region_has_a_life_of_its_own);
	tcase_add_test(cases, a_region_over_a_region_has_its_own_zone);
	tcase_add_test(cases, a_region_that_is_freed_has_no_children);
}
