/* SPDX-License-Identifier: BSD-2-Clause */
/* Transfers, the patterns in memory that show what they moved, and accesses to a peer's memory. */
#define CONSUMER_IMPLEMENTATION
#include "consumer.h"
#include "impl.h"

/* ---- posts ---- */

DAT_DTO_COOKIE cookie_of(uint64_t n)
{
	return (DAT_DTO_COOKIE){ .as_64 = n };
}

void post_recv(DAT_EP_HANDLE ep, uint64_t n, DAT_LMR_TRIPLET to)
{
	ck_dat_at_test(dat_ep_post_recv(ep, 1, &to, cookie_of(n), DAT_COMPLETION_DEFAULT_FLAG));
}

void post_send(DAT_EP_HANDLE ep, uint64_t n, DAT_LMR_TRIPLET from, DAT_COMPLETION_FLAGS flags)
{
	ck_dat_at_test(dat_ep_post_send(ep, 1, &from, cookie_of(n), flags));
}

void post_write(DAT_EP_HANDLE ep, uint64_t n, DAT_LMR_TRIPLET from, DAT_RMR_TRIPLET to,
		DAT_COMPLETION_FLAGS flags)
{
	ck_dat_at_test(dat_ep_post_rdma_write(ep, 1, &from, cookie_of(n), &to, flags));
}

void post_read(DAT_EP_HANDLE ep, uint64_t n, DAT_LMR_TRIPLET to, DAT_RMR_TRIPLET from,
	       DAT_COMPLETION_FLAGS flags)
{
	ck_dat_at_test(dat_ep_post_rdma_read(ep, 1, &to, cookie_of(n), &from, flags));
}

void post_recvs(const struct side *side, uint64_t first, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		post_recv(side->ep, first + i, segment(side, 8 * (size_t)i, 8));
}

void expect_flushed_recvs(const struct side *side, uint64_t first, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		expect_dto(side->recv_evd, side->ep, first + i, DAT_DTO_ERR_FLUSHED, 0);
}

void post_outstanding(const struct side *from, const struct side *to, unsigned n)
{
	unsigned posted = 0;

	post_send(from->ep, 0, segment(from, 0, 8), DAT_COMPLETION_DEFAULT_FLAG);
	if (device_has(NEEDS_SEND_PLACEMENT))
		posted = 1;
	else
		expect_request_done(from, 0, 8);
	for (; posted < n; posted++)
		post_write(from->ep, posted, segment(from, 0, 8), target(to, 0, 8),
			   DAT_COMPLETION_DEFAULT_FLAG);
}

/* ---- patterns ---- */

/* In a block of so many bytes the pattern is a ramp, which begins elsewhere in the next block. */
#define BLOCK ((size_t)256)

static unsigned char ramp[2 * BLOCK];

__attribute__((constructor)) static void ramp_fill(void)
{
	for (size_t i = 0; i < sizeof(ramp); i++)
		ramp[i] = (unsigned char)(7 * i);
}

/*
 * The bytes of the block that begins at byte @at. Neighbouring bytes, blocks, pages and seeds
 * differ, so that misplaced bytes show.
 */
static const unsigned char *block_pattern(size_t at, unsigned seed)
{
	const size_t block = at / BLOCK;

	return ramp + (block * 13 + (block >> 8) * 29 + seed * 101 + 1) % BLOCK;
}

/* Eight bytes of any type, at any address. */
typedef uint64_t eight_bytes __attribute__((may_alias, aligned(1)));

/*
 * The thread sanitizer sees libfabric's thread read and write this memory, and nothing of what
 * orders that, as with a device: each byte would be a race, which it takes long to suppress. It
 * would see memcpy and memcmp, too.
 */
#define UNSEEN __attribute__((no_sanitize("thread")))

UNSEEN static void bytes_copy(unsigned char *to, const unsigned char *from, size_t size)
{
	size_t i = 0;

	for (; i + 8 <= size; i += 8)
		*(eight_bytes *)(to + i) = *(const eight_bytes *)(from + i);
	for (; i < size; i++)
		to[i] = from[i];
}

/* The first byte that differs, or @size. */
UNSEEN static size_t bytes_differ(const unsigned char *bytes, const unsigned char *want,
				  size_t size)
{
	size_t i = 0;

	while (i + 8 <= size &&
	       *(const eight_bytes *)(bytes + i) == *(const eight_bytes *)(want + i))
		i += 8;
	while (i < size && bytes[i] == want[i])
		i++;
	return i;
}

void pattern_fill(void *at, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i += BLOCK)
		bytes_copy((unsigned char *)at + i, block_pattern(i, seed),
			   size - i < BLOCK ? size - i : BLOCK);
}

UNSEEN static void byte_refuse(const unsigned char *bytes, size_t i, size_t size,
			       unsigned char want)
{
	ck_abort_msg("%s:%d: byte %zu of %zu is 0x%02x, not 0x%02x", test_file, test_line, i, size,
		     bytes[i], want);
}

void pattern_check(const void *at, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i += BLOCK) {
		const unsigned char *want = block_pattern(i, seed);
		const size_t length = size - i < BLOCK ? size - i : BLOCK;
		const size_t differs = bytes_differ((const unsigned char *)at + i, want, length);

		if (differs < length)
			byte_refuse(at, i + differs, size, want[differs]);
	}
}

UNSEEN void bytes_check(const void *at, size_t size, unsigned char byte)
{
	const unsigned char *bytes = at;

	for (size_t i = 0; i < size; i++)
		if (bytes[i] != byte)
			byte_refuse(at, i, size, byte);
}

/* ---- accesses to the server's memory ---- */

/* Fills both sides' memory, with patterns from @seed on. */
static void fill_both(const struct pair *pair, unsigned seed)
{
	pattern_fill(pair->client.memory, pair->client.size, seed);
	pattern_fill(pair->server.memory, pair->server.size, seed + 1);
}

void expect_read(const struct pair *pair, DAT_RMR_TRIPLET from)
{
	const struct side *client = &pair->client;

	fill_both(pair, 1);
	post_read(client->ep, 1, segment(client, 0, from.segment_length), from,
		  DAT_COMPLETION_DEFAULT_FLAG);
	expect_request_done(client, 1, from.segment_length);
	ck_assert_mem_eq(client->memory, (void *)(uintptr_t)from.REMOTE_ADDRESS,
			 from.segment_length);
}

/* When a read behind the write completes, the write has been placed, on any device. */
void expect_write(const struct pair *pair, DAT_RMR_TRIPLET to)
{
	const struct side *client = &pair->client;

	fill_both(pair, 3);
	post_write(client->ep, 1, segment(client, 0, to.segment_length), to,
		   DAT_COMPLETION_DEFAULT_FLAG);
	post_read(client->ep, 2, segment(client, client->size - 1, 1), target(&pair->server, 0, 1),
		  DAT_COMPLETION_DEFAULT_FLAG);
	expect_request_done(client, 1, to.segment_length);
	expect_request_done(client, 2, 1);
	pattern_check((void *)(uintptr_t)to.REMOTE_ADDRESS, to.segment_length, 3);
}

/* What the client's request completes with depends on the device. */
static void expect_refused_status(const struct side *client, bool read)
{
	const DAT_DTO_COMPLETION_EVENT_DATA dto = expect_event(client->request_evd,
							       DAT_DTO_COMPLETION_EVENT)
							  .event_data.dto_completion_event_data;

	ck_assert_ptr_eq(dto.ep_handle, client->ep);
	ck_assert_uint_eq(dto.user_cookie.as_64, 1);
	if (device_has(NEEDS_REMOTE_STATUS))
		ck_assert_int_eq(dto.status, DAT_DTO_ERR_REMOTE_ACCESS);
	else if (read)
		ck_assert_int_ne(dto.status, DAT_DTO_SUCCESS);
}

static void expect_access_refused(struct pair *pair, bool read, DAT_RMR_TRIPLET remote)
{
	const struct side *client = &pair->client;
	const DAT_LMR_TRIPLET local = segment(client, 0, remote.segment_length);

	fill_both(pair, 5);
	if (read)
		post_read(client->ep, 1, local, remote, DAT_COMPLETION_DEFAULT_FLAG);
	else
		post_write(client->ep, 1, local, remote, DAT_COMPLETION_DEFAULT_FLAG);
	if (device_has(NEEDS_REMOTE_STATUS))
		expect_connection(client, DAT_CONNECTION_EVENT_BROKEN);
	else
		expect_end(client);
	expect_end(&pair->server);
	expect_refused_status(client, read);
	pattern_check(client->memory, client->size, 5);
	pattern_check(pair->server.memory, pair->server.size, 6);
	pair_reconnect(pair);
}

void expect_read_refused(struct pair *pair, DAT_RMR_TRIPLET from)
{
	expect_access_refused(pair, true, from);
}

void expect_write_refused(struct pair *pair, DAT_RMR_TRIPLET to)
{
	expect_access_refused(pair, false, to);
}
