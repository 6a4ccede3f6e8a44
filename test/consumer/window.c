/* SPDX-License-Identifier: BSD-2-Clause */
/* A window (RMR) of the server, through which the client reaches the server's memory. */
#define CONSUMER_IMPLEMENTATION
#include <sched.h>

#include "consumer.h"
#include "impl.h"

#define BIND_COOKIE UINT64_MAX /* of the binds whose completion is waited for at once */

void window_open(struct window *window)
{
	const struct side *server = &window->pair.server;

	pair_open(&window->pair, NULL);
	window->region = region_over(server, server->memory, server->size, LOCAL);
	ck_dat(dat_rmr_create(server->pz, &window->rmr));
}

void window_close(struct window *window)
{
	pair_disconnect(&window->pair, DAT_CLOSE_ABRUPT_FLAG);
	ck_dat(dat_lmr_free(window->region.lmr));
	pair_close(&window->pair);
}

static DAT_RMR_CONTEXT post_bind_of(const struct window *window, DAT_LMR_HANDLE lmr, uint64_t n,
				    DAT_LMR_TRIPLET range, DAT_MEM_PRIV_FLAGS priv,
				    DAT_COMPLETION_FLAGS flags)
{
	DAT_RMR_CONTEXT context;
	DAT_RETURN ret;

	while ((ret = RMR_BIND(window->rmr, lmr, &range, priv, window->pair.server.ep, cookie_of(n),
			       flags, &context)) == NO_RESOURCE(MEMORY))
		sched_yield();
	ck_dat_at_test(ret);
	return context;
}

DAT_RMR_CONTEXT post_bind(const struct window *window, uint64_t n, DAT_LMR_TRIPLET range,
			  DAT_MEM_PRIV_FLAGS priv, DAT_COMPLETION_FLAGS flags)
{
	return post_bind_of(window, window->region.lmr, n, range, priv, flags);
}

DAT_RMR_CONTEXT bind_range(const struct window *window, DAT_LMR_HANDLE lmr, DAT_LMR_TRIPLET range,
			   DAT_MEM_PRIV_FLAGS priv)
{
	DAT_RMR_CONTEXT context = post_bind_of(window, lmr, BIND_COOKIE, range, priv,
					       DAT_COMPLETION_DEFAULT_FLAG);

	expect_bind(window->pair.server.request_evd, window->rmr, BIND_COOKIE,
		    DAT_RMR_BIND_SUCCESS);
	return context;
}

DAT_RMR_CONTEXT bind_window(const struct window *window, DAT_MEM_PRIV_FLAGS priv)
{
	DAT_RMR_CONTEXT context = bind_range(
		window, window->region.lmr,
		region_segment(&window->region, WINDOW_FROM, WINDOW_SIZE), priv);

	/* Without a privilege there may be no context that names the window. */
	if (priv & REMOTE)
		ck_assert_uint_ne(context, 0);
	return context;
}

void unbind_window(const struct window *window)
{
	const DAT_LMR_TRIPLET nothing = { .segment_length = 0 };

	ck_assert_uint_eq(bind_range(window, DAT_HANDLE_NULL, nothing, REMOTE), 0);
}

DAT_RMR_TRIPLET window_target(const struct window *window, DAT_RMR_CONTEXT context, size_t offset,
			      size_t length)
{
	DAT_RMR_TRIPLET remote = region_target(&window->region, offset, length);

	remote.rmr_context = context;
	return remote;
}
