/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection zones, each of which has a domain of libfabric: what peers reach, and failures. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "../../udapl/ofi/ofi.h"
#include "../unit/alloc.h"
#include "ofi_test.h"

#define PARAMS "scripted 127.0.0.1"

/* The passive endpoint is in a zone of its own, which has a region of the second half of memory. */
struct zoned {
	struct ofi_rig rig;
	DAT_PZ_HANDLE pz;
	DAT_LMR_HANDLE lmr;
	DAT_RMR_TRIPLET target;
};

static void zoned_open(struct zoned *z)
{
	DAT_REGION_DESCRIPTION region;
	DAT_LMR_CONTEXT context;
	struct ofi_rig *rig = &z->rig;

	ck_dat(ofi_ia_open(rig, PARAMS));
	ck_dat(ofi_objects_create(rig));
	ck_dat(pz_create(rig->ia, &z->pz));
	z->target = rig->target;
	region.for_va = rig->memory + OFI_MEMORY / 2;
	ck_dat(lmr_create_va(rig->ia, DAT_MEM_TYPE_VIRTUAL, region, OFI_MEMORY / 2, z->pz,
			     DAT_MEM_PRIV_ALL_FLAG, &z->lmr, &context, &z->target.rmr_context, NULL,
			     NULL));
	ck_dat(ep_free(rig->passive));
	ck_dat(ep_create(rig->ia, z->pz, rig->dto_evd, rig->dto_evd, rig->conn_evd, NULL,
			 &rig->passive));
	ck_dat(ofi_connect(rig));
}

static void zoned_close(struct zoned *z)
{
	ck_dat(ep_free(z->rig.passive));
	z->rig.passive = DAT_HANDLE_NULL;
	ck_dat(lmr_free(z->lmr));
	ck_dat(pz_free(z->pz));
	ofi_rig_close(&z->rig);
}

/* ---- what peers reach ---- */

START_TEST(a_peer_reaches_the_regions_of_its_zone_only)
{
	struct zoned z;

	zoned_open(&z);
	ck_assert_uint_eq(ofi_write(&z.rig, z.target.rmr_context), DAT_DTO_SUCCESS);
	ck_assert_int_eq(z.rig.memory[OFI_MEMORY / 2], 'x');
	ck_assert_uint_eq(ofi_write(&z.rig, z.rig.target.rmr_context), DAT_DTO_ERR_FLUSHED);
	ck_assert_int_eq(z.rig.memory[OFI_MEMORY / 2], 0);
	zoned_close(&z);
}
END_TEST

/* As libfabric numbers the regions of each domain. The other region is behind this one. */
START_TEST(a_key_is_of_the_peers_own_zone)
{
	struct zoned z;
	DAT_LMR_TRIPLET from;

	ff_provider()->basic_only = true;
	zoned_open(&z);
	while (z.target.rmr_context < z.rig.target.rmr_context) {
		ck_dat(lmr_free(z.lmr));
		ck_dat(lmr_create_va(
			z.rig.ia, DAT_MEM_TYPE_VIRTUAL,
			(DAT_REGION_DESCRIPTION){ .for_va = z.rig.memory + OFI_MEMORY / 2 },
			OFI_MEMORY / 2, z.pz, DAT_MEM_PRIV_ALL_FLAG, &z.lmr, &from.lmr_context,
			&z.target.rmr_context, NULL, NULL));
	}
	ck_assert_uint_eq(z.target.rmr_context, z.rig.target.rmr_context);
	ck_assert_uint_eq(ofi_write(&z.rig, z.target.rmr_context), DAT_DTO_SUCCESS);
	z.rig.target.REMOTE_ADDRESS = (uintptr_t)z.rig.memory;
	ck_assert_uint_eq(ofi_write(&z.rig, z.rig.target.rmr_context), DAT_DTO_ERR_FLUSHED);
	zoned_close(&z);
}
END_TEST

/* ---- domains ---- */

START_TEST(one_zone_costs_no_domain_and_no_queue)
{
	DAT_PZ_HANDLE pz;
	struct ofi_rig rig;
	unsigned queues;

	ofi_rig_open(&rig);
	queues = ff_alive(FF_CQ);
	ck_assert_uint_eq(ff_alive(FF_DOMAIN), 1);
	ck_dat(pz_create(rig.ia, &pz));
	ck_assert_uint_eq(ff_alive(FF_DOMAIN), 2);
	ck_assert_uint_eq(ff_alive(FF_CQ), queues);
	ck_dat(pz_free(pz));
	ck_assert_uint_eq(ff_alive(FF_DOMAIN), 1);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(a_new_zone_takes_the_domain_that_the_first_one_had)
{
	DAT_PZ_HANDLE pzs[3];
	struct ofi_rig rig;

	ck_dat(ofi_ia_open(&rig, PARAMS));
	ck_dat(pz_create(rig.ia, &pzs[0]));
	ck_dat(pz_create(rig.ia, &pzs[1]));
	ck_dat(pz_free(pzs[0]));
	ck_assert_uint_eq(ff_alive(FF_DOMAIN), 2);
	ck_dat(pz_create(rig.ia, &pzs[2]));
	ck_assert_uint_eq(ff_alive(FF_DOMAIN), 2);
	ck_dat(pz_free(pzs[1]));
	ck_dat(pz_free(pzs[2]));
	ofi_rig_close(&rig);
}
END_TEST

/* Of endpoints that share an EVD, in zones that share none. */
START_TEST(an_evd_has_one_queue_for_each_zone)
{
	struct zoned z;
	DAT_EP_HANDLE more[3];
	unsigned queues;

	zoned_open(&z);
	queues = ff_alive(FF_CQ);
	for (unsigned i = 0; i < 3; i++)
		ck_dat(ep_create(z.rig.ia, i % 2 ? z.rig.pz : z.pz, z.rig.dto_evd, z.rig.dto_evd,
				 z.rig.conn_evd, NULL, &more[i]));
	ck_assert_uint_eq(ff_alive(FF_CQ), queues);
	for (unsigned i = 0; i < 3; i++)
		ck_dat(ep_free(more[i]));
	ck_assert_uint_eq(ff_alive(FF_CQ), queues);
	ck_dat(ep_free(z.rig.passive));
	ck_assert_uint_eq(ff_alive(FF_CQ), queues - 1);
	ck_dat(ep_create(z.rig.ia, z.pz, z.rig.dto_evd, z.rig.dto_evd, z.rig.conn_evd, NULL,
			 &z.rig.passive));
	zoned_close(&z);
}
END_TEST

START_TEST(an_abrupt_close_closes_all_domains)
{
	struct zoned z;

	zoned_open(&z);
	ck_dat(ep_post_recv(z.rig.passive, 0, NULL, (DAT_DTO_COOKIE){ .as_64 = 1 },
			    DAT_COMPLETION_DEFAULT_FLAG));
	ck_dat(ia_close(z.rig.ia, DAT_CLOSE_ABRUPT_FLAG));
	for (enum ff_kind kind = FF_INFO; kind < FF_KINDS; kind++)
		ck_assert_uint_eq(ff_alive(kind), 0);
	free(z.rig.memory);
}
END_TEST

/* ---- failures ---- */

static const struct {
	const char *call; /* NULL: an allocation */
	int err;
} zone_steps[] = {
	{ NULL, 0 },
	{ "fi_domain", FI_ENOMEM },
	{ "fi_domain", FI_EMFILE },
	{ "fi_domain", FI_EACCES },
	{ "fi_domain_bind", FI_EINVAL },
};

START_TEST(a_zone_that_can_not_be_made_leaves_nothing_behind)
{
	const char *call = zone_steps[_i].call;
	bool failed = true;
	struct ofi_rig rig;
	unsigned n;

	setenv("DAPL_DBG_TYPE", "0", 1);
	ff_provider()->asynchronous = true;
	ofi_rig_open(&rig);
	for (n = 1; failed; n++) {
		DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
		DAT_RETURN ret;

		if (call)
			ff_fail(call, zone_steps[_i].err, n);
		else
			alloc_fail_nth(n);
		ret = pz_create(rig.ia, &pz);
		failed = call ? !ff_fail_left(call) : alloc_failed();
		if (!failed)
			ck_dat(pz_free(pz));
		else
			ck_assert_uint_eq(DAT_GET_TYPE(ret), DAT_INSUFFICIENT_RESOURCES);
		ck_assert(failed == (pz == DAT_HANDLE_NULL));
		ck_assert_uint_eq(ff_alive(FF_DOMAIN), 1);
	}
	ck_assert_uint_gt(n, 2); /* the call was made, and has failed */
	ck_assert_uint_eq(ofi_write(&rig, rig.target.rmr_context), DAT_DTO_SUCCESS);
	ofi_rig_close(&rig);
}
END_TEST

START_TEST(zones_that_can_not_be_made_take_no_memory)
{
	const unsigned many = 5000;
	struct ofi_rig rig;
	size_t used = 0;

	setenv("DAPL_DBG_TYPE", "0", 1);
	ofi_rig_open(&rig);
	for (unsigned i = 0; i < 2 * many; i++) {
		DAT_PZ_HANDLE pz;

		ff_fail("fi_domain", FI_ENOMEM, 1);
		ck_assert_uint_eq(DAT_GET_TYPE(pz_create(rig.ia, &pz)), DAT_INSUFFICIENT_RESOURCES);
		if (i == many) /* all is as large as it will be */
			used = memory_in_use();
	}
	ck_assert_uint_lt(memory_in_use(), used + many * LEAST_BLOCK);
	ofi_rig_close(&rig);
}
END_TEST

static const struct {
	const char *call; /* NULL: an allocation */
	int err;
} ep_steps[] = {
	{ NULL, 0 },
	{ "fi_cq_open", FI_ENOMEM },
	{ "fi_getwait", FI_EINVAL },
};

/* Its requests and its receives complete on two EVDs, which have no other endpoint of the zone. */
START_TEST(an_endpoint_that_can_not_be_made_leaves_no_queue_behind)
{
	const char *call = ep_steps[_i].call;
	DAT_EVD_HANDLE recv_evd;
	bool failed = true;
	DAT_PZ_HANDLE pz;
	struct ofi_rig rig;
	unsigned queues;

	setenv("DAPL_DBG_TYPE", "0", 1);
	ofi_rig_open(&rig);
	ck_dat(pz_create(rig.ia, &pz));
	ck_dat(evd_create(rig.ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &recv_evd));
	queues = ff_alive(FF_CQ);
	for (unsigned n = 1; failed; n++) {
		DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
		DAT_RETURN ret;

		if (call)
			ff_fail(call, ep_steps[_i].err, n);
		else
			alloc_fail_nth(n);
		ret = ep_create(rig.ia, pz, recv_evd, rig.dto_evd, rig.conn_evd, NULL, &ep);
		failed = call ? !ff_fail_left(call) : alloc_failed();
		if (!failed) {
			ck_assert_uint_eq(ff_alive(FF_CQ), queues + 2);
			ck_dat(ep_free(ep));
		} else {
			ck_assert_uint_eq(DAT_GET_TYPE(ret), DAT_INSUFFICIENT_RESOURCES);
		}
		ck_assert_uint_eq(ff_alive(FF_CQ), queues);
	}
	ck_assert_uint_eq(ofi_write(&rig, rig.target.rmr_context), DAT_DTO_SUCCESS);
	ck_dat(evd_free(recv_evd));
	ck_dat(pz_free(pz));
	ofi_rig_close(&rig);
}
END_TEST

/* ---- completions ---- */

START_TEST(a_request_that_fails_has_its_status)
{
	struct ofi_rig rig;

	setenv("DAT_TEST_SECOND_ZONE", "1", 1);
	ofi_rig_open(&rig);
	ff_fail("completion", FI_EMSGSIZE, 1);
	ck_assert_uint_eq(ofi_write(&rig, rig.target.rmr_context), DAT_DTO_ERR_LOCAL_LENGTH);
	ofi_rig_close(&rig);
}
END_TEST

static void arm(const struct ofi_rig *rig, enum tp_arm what)
{
	cancel_forbid();
	ck_assert_int_eq(tp_cq_arm(((struct evd *)rig->dto_evd)->cq, what), 0);
	cancel_allow(PTHREAD_CANCEL_ENABLE);
}

/* The kernel refuses a set the descriptor of either domain, at each of its turns. */
START_TEST(who_sleeps_where_a_descriptor_is_refused_is_woken_by_the_service_thread)
{
	bool failed = true;
	struct zoned z;

	setenv("DAPL_DBG_TYPE", "0", 1);
	zoned_open(&z);
	for (unsigned n = 1; failed; n++) {
		ff_fail("epoll_ctl", ENOSPC, n);
		arm(&z.rig, TP_ARM_ANY);
		failed = !ff_fail_left("epoll_ctl");
		ck_assert_uint_eq(ofi_write(&z.rig, z.target.rmr_context), DAT_DTO_SUCCESS);
		arm(&z.rig, TP_ARM_NOTHING);
	}
	zoned_close(&z);
}
END_TEST

/* It is read only if something may be there. */
START_TEST(ends_of_idle_connections_read_no_queue_of_another_domain)
{
	struct zoned z;
	DAT_EP_HANDLE idle[8];
	unsigned reads;

	ff_provider()->protocol = FI_PROTO_SOCK_TCP;
	zoned_open(&z);
	for (unsigned i = 0; i < 8; i++)
		ck_dat(ep_create(z.rig.ia, z.pz, z.rig.dto_evd, z.rig.dto_evd, z.rig.conn_evd, NULL,
				 &idle[i]));
	ofi_rig_lock(&z.rig);
	reads = ff_calls("fi_cq_read");
	for (unsigned i = 0; i < 8; i++)
		ck_assert_int_eq(tp_qp_error(((struct ep *)idle[i])->qp), 0);
	ck_assert_uint_le(ff_calls("fi_cq_read") - reads, 4);
	ofi_rig_unlock(&z.rig);
	for (unsigned i = 0; i < 8; i++)
		ck_dat(ep_free(idle[i]));
	zoned_close(&z);
}
END_TEST

/* ---- the queue of another domain, with the service thread kept out ---- */

static struct tp_cq *zoned_cq(const struct zoned *z)
{
	return ((struct evd *)z->rig.dto_evd)->cq;
}

static void zoned_quiet_open(struct zoned *z)
{
	zoned_open(z);
	ofi_rig_lock(&z->rig);
}

static void zoned_quiet_close(struct zoned *z)
{
	ofi_rig_unlock(&z->rig);
	zoned_close(z);
}

/* A request of the endpoint in the other zone completes in the queue of its domain. */
static void complete_one(const struct zoned *z)
{
	DAT_LMR_PARAM lmr;
	DAT_LMR_TRIPLET from = { .virtual_address = (uintptr_t)z->rig.memory + OFI_MEMORY / 2,
				 .segment_length = 1 };

	ck_dat(lmr_query(z->lmr, DAT_LMR_FIELD_LMR_CONTEXT, &lmr));
	from.lmr_context = lmr.lmr_context;
	ck_dat(ep_post_rdma_write(z->rig.passive, 1, &from, (DAT_DTO_COOKIE){ .as_64 = 1 },
				  &z->rig.target, DAT_COMPLETION_DEFAULT_FLAG));
}

/* What the service thread, a poll and a thread that is about to sleep ask of these queues. */
struct answers {
	unsigned taken;
	bool empty, quiet, waiting;
};

static void answers_are(const struct zoned *z, bool take, struct answers want)
{
	struct tp_cq *cq = zoned_cq(z);
	unsigned taken = 0;

	spin_lock(&cq->lock);
	if (take)
		taken = domains_harvest_locked(cq);
	ck_assert_uint_eq(taken, want.taken);
	ck_assert(domains_are_empty_locked(cq) == want.empty);
	ck_assert(domains_are_quiet_locked(cq) == want.quiet);
	spin_unlock(&cq->lock);
	mutex_lock(&cq->dev->cqs_lock);
	ck_assert(domains_have_waiting_locked(cq) == want.waiting);
	mutex_unlock(&cq->dev->cqs_lock);
}

START_TEST(what_a_queue_of_another_domain_holds_is_told)
{
	struct zoned z;

	zoned_quiet_open(&z);
	answers_are(&z, true, (struct answers){ 0, true, true, false });
	complete_one(&z);
	answers_are(&z, false, (struct answers){ 0, false, false, true });
	/* all was taken, but who reads does not know that yet */
	answers_are(&z, true, (struct answers){ 1, false, true, false });
	answers_are(&z, true, (struct answers){ 0, true, true, false });
	zoned_quiet_close(&z);
}
END_TEST

/* Says which descriptors are in a set. Returns how many. */
static unsigned set_read(int epoll, bool in_set[256])
{
	char path[64], line[256];
	unsigned n = 0, fd;
	FILE *info;

	memset(in_set, 0, 256 * sizeof(*in_set));
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll);
	info = fopen(path, "r");
	ck_assert_ptr_nonnull(info);
	while (fgets(line, sizeof(line), info)) {
		if (sscanf(line, "tfd: %u", &fd) != 1)
			continue;
		ck_assert_uint_lt(fd, 256);
		in_set[fd] = true;
		n++;
	}
	fclose(info);
	return n;
}

static unsigned set_size(int epoll)
{
	bool in_set[256];

	return set_read(epoll, in_set);
}

static bool set_has(int epoll, int fd)
{
	bool in_set[256];

	(void)set_read(epoll, in_set);
	return in_set[fd];
}

START_TEST(a_queue_of_another_domain_is_in_the_set_of_who_sleeps)
{
	struct zoned z;
	struct tp_cq *cq;
	unsigned before;

	zoned_quiet_open(&z);
	cq = zoned_cq(&z);
	before = set_size(cq->epoll);
	spin_lock(&cq->lock);
	ck_assert(domains_watch_locked(cq));
	ck_assert(domains_watch_locked(cq));
	ck_assert_uint_eq(set_size(cq->epoll), before + 1);
	domains_unwatch_locked(cq);
	ck_assert_uint_eq(set_size(cq->epoll), before);
	ff_fail("epoll_ctl", ENOSPC, 1);
	ck_assert(!domains_watch_locked(cq));
	spin_unlock(&cq->lock);
	zoned_quiet_close(&z);
}
END_TEST

START_TEST(a_queue_of_another_domain_is_in_the_set_of_the_device)
{
	struct zoned z;
	struct tp_cq *cq;
	unsigned before;

	zoned_quiet_open(&z);
	cq = zoned_cq(&z);
	mutex_lock(&cq->dev->cqs_lock);
	ck_assert_int_eq(domains_report_locked(cq), 0);
	before = set_size(cq->dev->epoll);
	domains_drop_locked(cq);
	ck_assert_uint_eq(set_size(cq->dev->epoll), before - 1);
	ff_fail("epoll_ctl", ENOSPC, 1);
	ck_assert_int_eq(domains_report_locked(cq), -ENOSPC);
	ck_assert_int_eq(domains_report_locked(cq), 0);
	ck_assert_uint_eq(set_size(cq->dev->epoll), before);
	mutex_unlock(&cq->dev->cqs_lock);
	zoned_quiet_close(&z);
}
END_TEST

/* Puts the queue of the other domain into both sets. Returns its descriptor. */
static int into_both_sets(struct tp_cq *cq)
{
	bool before[256], after[256];
	int fd = 0;

	mutex_lock(&cq->dev->cqs_lock);
	ck_assert_int_eq(domains_report_locked(cq), 0);
	spin_lock(&cq->lock);
	domains_unwatch_locked(cq);
	(void)set_read(cq->epoll, before);
	ck_assert(domains_watch_locked(cq));
	(void)set_read(cq->epoll, after);
	spin_unlock(&cq->lock);
	mutex_unlock(&cq->dev->cqs_lock);
	while (before[fd] == after[fd])
		fd++;
	ck_assert(set_has(cq->dev->epoll, fd));
	return fd;
}

/* A child of the process may have the descriptor, too, so that the kernel does not forget it. */
START_TEST(a_queue_that_is_closed_leaves_both_sets)
{
	struct zoned z;
	struct tp_cq *cq;
	int fd, kept;

	zoned_quiet_open(&z);
	cq = zoned_cq(&z);
	fd = into_both_sets(cq);
	kept = dup(fd);
	ofi_rig_unlock(&z.rig);
	ck_dat(ep_free(z.rig.passive));
	ck_assert(!set_has(cq->epoll, fd));
	ck_assert(!set_has(cq->dev->epoll, fd));
	close(kept);
	ck_dat(ep_create(z.rig.ia, z.pz, z.rig.dto_evd, z.rig.dto_evd, z.rig.conn_evd, NULL,
			 &z.rig.passive));
	zoned_close(&z);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *tcase = tcase_create("zones");

	tcase_add_test(tcase, a_peer_reaches_the_regions_of_its_zone_only);
	tcase_add_test(tcase, a_key_is_of_the_peers_own_zone);
	tcase_add_test(tcase, one_zone_costs_no_domain_and_no_queue);
	tcase_add_test(tcase, a_new_zone_takes_the_domain_that_the_first_one_had);
	tcase_add_test(tcase, an_evd_has_one_queue_for_each_zone);
	tcase_add_test(tcase, an_abrupt_close_closes_all_domains);
	tcase_add_loop_test(tcase, a_zone_that_can_not_be_made_leaves_nothing_behind, 0,
			    COUNT(zone_steps));
	tcase_add_test(tcase, zones_that_can_not_be_made_take_no_memory);
	tcase_add_loop_test(tcase, an_endpoint_that_can_not_be_made_leaves_no_queue_behind, 0,
			    COUNT(ep_steps));
	tcase_add_test(tcase, a_request_that_fails_has_its_status);
	tcase_add_test(tcase,
		       who_sleeps_where_a_descriptor_is_refused_is_woken_by_the_service_thread);
	tcase_add_test(tcase, ends_of_idle_connections_read_no_queue_of_another_domain);
	tcase_add_test(tcase, what_a_queue_of_another_domain_holds_is_told);
	tcase_add_test(tcase, a_queue_of_another_domain_is_in_the_set_of_who_sleeps);
	tcase_add_test(tcase, a_queue_of_another_domain_is_in_the_set_of_the_device);
	tcase_add_test(tcase, a_queue_that_is_closed_leaves_both_sets);
	return run_cases(argc, argv);
}
