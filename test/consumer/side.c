/* SPDX-License-Identifier: BSD-2-Clause */
/* One end of a connection: its IA and the objects in it. */
#define CONSUMER_IMPLEMENTATION
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "consumer.h"
#include "impl.h"

/* ---- open and close ---- */

void side_open_ia(struct side *side, const char *name, bool thread_safe)
{
	memset(side, 0, sizeof(*side));
	strcpy(side->name, name);
	ck_dat(dat_ia_openv(side->name, 8, &side->async_evd, &side->ia, DAT_VERSION_MAJOR,
			    DAT_VERSION_MINOR, thread_safe ? DAT_TRUE : DAT_FALSE));
	ck_dat(dat_ia_query(side->ia, NULL, DAT_IA_FIELD_ALL, &side->attr, DAT_PROVIDER_FIELD_ALL,
			    &side->provider));
	memcpy(&side->address, side->attr.ia_address_ptr, sizeof(side->address));
}

DAT_EVD_HANDLE side_create_evd(const struct side *side, DAT_COUNT qlen, DAT_EVD_FLAGS flags)
{
	DAT_EVD_HANDLE evd;

	ck_dat(dat_evd_create(side->ia, qlen, DAT_HANDLE_NULL, flags, &evd));
	return evd;
}

void side_open_bare_as(struct side *side, const char *name, bool thread_safe)
{
	side_open_ia(side, name, thread_safe);
	if (getenv("DAT_TEST_SECOND_ZONE"))
		ck_dat(dat_pz_create(side->ia, &side->first_pz));
	ck_dat(dat_pz_create(side->ia, &side->pz));
	side->recv_evd = side_create_evd(side, SIDE_QLEN, DAT_EVD_DTO_FLAG);
	side->request_evd = side_create_evd(side, SIDE_QLEN,
					    DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG);
	side->connect_evd = side_create_evd(side, SIDE_QLEN, DAT_EVD_CONNECTION_FLAG);
	side->cr_evd = side_create_evd(side, SIDE_QLEN, DAT_EVD_CR_FLAG);
}

void side_open_bare(struct side *side, enum end end)
{
	side_open_bare_as(side, ia_name(end, BY_INTERFACE), false);
}

void side_equip(struct side *side, const DAT_EP_ATTR *attr, size_t size)
{
	struct region region = region_map(side, size, DAT_MEM_PRIV_ALL_FLAG);

	side->memory = region.at;
	side->size = size;
	side->lmr = region.lmr;
	side->lmr_context = region.lmr_context;
	side->rmr_context = region.rmr_context;
	side->ep = side_create_ep(side, attr);
}

void side_open(struct side *side, enum end end)
{
	side_open_bare(side, end);
	side_equip(side, NULL, SIDE_MEMORY);
}

void side_free_zones(const struct side *side)
{
	ck_dat(dat_pz_free(side->pz));
	if (side->first_pz)
		ck_dat(dat_pz_free(side->first_pz));
}

void side_close(struct side *side)
{
	if (side->ep)
		ck_dat(dat_ep_free(side->ep));
	if (side->lmr)
		ck_dat(dat_lmr_free(side->lmr));
	side_free_zones(side);
	ck_dat(dat_evd_free(side->recv_evd));
	ck_dat(dat_evd_free(side->request_evd));
	ck_dat(dat_evd_free(side->connect_evd));
	ck_dat(dat_evd_free(side->cr_evd));
	ck_dat(dat_ia_close(side->ia, DAT_CLOSE_GRACEFUL_FLAG));
	if (side->memory)
		munmap(side->memory, side->size);
}

void side_close_abrupt(struct side *side)
{
	ck_dat(dat_ia_close(side->ia, DAT_CLOSE_ABRUPT_FLAG));
	if (side->memory)
		munmap(side->memory, side->size);
}

void side_copy_in_new_zone(struct side *other, const struct side *side)
{
	struct region region;

	memcpy(other, side, sizeof(*other)); /* provider has constant members */
	ck_dat(dat_pz_create(side->ia, &other->pz));
	if (!side->memory)
		return;
	region = region_over(other, side->memory, side->size, DAT_MEM_PRIV_ALL_FLAG);
	other->lmr = region.lmr;
	other->lmr_context = region.lmr_context;
	other->rmr_context = region.rmr_context;
}

/* ---- endpoints ---- */

DAT_EP_ATTR ep_attr_for(DAT_COUNT recvs, DAT_COUNT requests)
{
	return (DAT_EP_ATTR){
		.service_type = DAT_SERVICE_TYPE_RC,
		.qos = DAT_QOS_BEST_EFFORT,
		.max_recv_dtos = recvs,
		.max_request_dtos = requests,
		.max_recv_iov = 4,
		.max_request_iov = 4,
		.max_rdma_read_in = 4,
		.max_rdma_read_out = 4,
	};
}

static _Atomic(DAT_EP_HANDLE) last_eps[2];
static _Atomic unsigned next_ep;

DAT_EP_HANDLE side_create_ep(const struct side *side, const DAT_EP_ATTR *attr)
{
	DAT_EP_HANDLE ep;

	ck_dat(dat_ep_create(side->ia, side->pz, side->recv_evd, side->request_evd,
			     side->connect_evd, attr, &ep));
	last_eps[next_ep++ % COUNT(last_eps)] = ep;
	return ep;
}

DAT_EP_STATE ep_get_state(DAT_EP_HANDLE ep)
{
	DAT_EP_STATE state;

	ck_dat(dat_ep_get_status(ep, &state, NULL, NULL));
	return state;
}

/* Tells the state of an endpoint, and what its EVD for connections holds next. */
static void ep_describe(DAT_EP_HANDLE ep, char text[EP_TEXT])
{
	DAT_EP_STATE state;
	DAT_EP_PARAM param;
	DAT_EVENT event;

	if (dat_ep_get_status(ep, &state, NULL, NULL) != DAT_SUCCESS)
		snprintf(text, EP_TEXT, "gone");
	else if (dat_ep_query(ep, DAT_EP_FIELD_CONNECT_EVD_HANDLE, &param) == DAT_SUCCESS &&
		 dat_evd_dequeue(param.connect_evd_handle, &event) == DAT_SUCCESS)
		snprintf(text, EP_TEXT, "in state %d with %s", state,
			 event_name(event.event_number));
	else
		snprintf(text, EP_TEXT, "in state %d", state);
}

void last_eps_describe(char text[2][EP_TEXT])
{
	for (size_t i = 0; i < COUNT(last_eps); i++)
		ep_describe(last_eps[i], text[i]);
}

/* ---- memory ---- */

DAT_RETURN region_try(const struct side *side, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION what,
		      DAT_VLEN size, DAT_MEM_PRIV_FLAGS priv, struct region *region)
{
	const struct region before = *region;
	DAT_RETURN ret = LMR_CREATE(side->ia, type, what, size, side->pz, priv, &region->lmr,
				    &region->lmr_context, &region->rmr_context, NULL, NULL);

	if (ret != DAT_SUCCESS)
		ck_assert_mem_eq(region, &before, sizeof(before));
	return ret;
}

struct region region_over(const struct side *side, void *at, size_t size, DAT_MEM_PRIV_FLAGS priv)
{
	const DAT_REGION_DESCRIPTION what = { .for_va = at };
	struct region region = { .at = at, .size = size };

	ck_dat(region_try(side, DAT_MEM_TYPE_VIRTUAL, what, size, priv, &region));
	return region;
}

struct region region_map(const struct side *side, size_t size, DAT_MEM_PRIV_FLAGS priv)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(at, MAP_FAILED);
	memset(at, UNTOUCHED, size);
	return region_over(side, at, size, priv);
}

void region_unmap(const struct region *region)
{
	ck_dat(dat_lmr_free(region->lmr));
	munmap(region->at, region->size);
}

DAT_LMR_TRIPLET region_segment(const struct region *region, size_t offset, size_t length)
{
	return (DAT_LMR_TRIPLET){
		.lmr_context = region->lmr_context,
		.virtual_address = (uintptr_t)region->at + offset,
		.segment_length = length,
	};
}

DAT_RMR_TRIPLET region_target(const struct region *region, size_t offset, size_t length)
{
	return (DAT_RMR_TRIPLET){
		.rmr_context = region->rmr_context,
		.REMOTE_ADDRESS = (uintptr_t)region->at + offset,
		.segment_length = length,
	};
}

static struct region own_region(const struct side *side)
{
	return (struct region){
		.at = side->memory,
		.size = side->size,
		.lmr = side->lmr,
		.lmr_context = side->lmr_context,
		.rmr_context = side->rmr_context,
	};
}

DAT_LMR_TRIPLET segment(const struct side *side, size_t offset, size_t length)
{
	const struct region region = own_region(side);

	return region_segment(&region, offset, length);
}

DAT_RMR_TRIPLET target(const struct side *side, size_t offset, size_t length)
{
	const struct region region = own_region(side);

	return region_target(&region, offset, length);
}
