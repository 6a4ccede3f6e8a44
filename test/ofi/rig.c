/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of the libfabric transport share. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "ofi_test.h"

static unsigned descriptors_open_at_first;
static bool is_announced;

void ofi_prepare(struct ofi_rig *rig, const char *params)
{
	const DAT_PROVIDER_INFO info = {
		.ia_name = "ofi",
		.dapl_version_major = DAT_VERSION_MAJOR,
		.dapl_version_minor = DAT_VERSION_MINOR,
	};

	*rig = (struct ofi_rig){ .memory = calloc(1, OFI_MEMORY) };
	if (is_announced)
		return;
	descriptors_open_at_first = count_entries("/proc/self/fd");
	dat_provider_init(&info, params);
	is_announced = true;
}

DAT_RETURN ofi_ia_open(struct ofi_rig *rig, const char *params)
{
	ofi_prepare(rig, params);
	return ia_open((DAT_NAME_PTR) "ofi", 8, &rig->async_evd, &rig->ia);
}

DAT_RETURN ofi_lmr_create(struct ofi_rig *rig)
{
	const DAT_REGION_DESCRIPTION region = { .for_va = rig->memory };

	rig->segment.virtual_address = (uintptr_t)rig->memory;
	rig->segment.segment_length = OFI_MEMORY / 2;
	rig->target.REMOTE_ADDRESS = (uintptr_t)rig->memory + OFI_MEMORY / 2;
	rig->target.segment_length = OFI_MEMORY / 2;
	return lmr_create_va(rig->ia, DAT_MEM_TYPE_VIRTUAL, region, OFI_MEMORY, rig->pz,
			     DAT_MEM_PRIV_ALL_FLAG, &rig->lmr, &rig->segment.lmr_context,
			     &rig->target.rmr_context, NULL, NULL);
}

DAT_RETURN ofi_eps_create(struct ofi_rig *rig)
{
	DAT_RETURN ret = ep_create(rig->ia, rig->pz, rig->dto_evd, rig->dto_evd, rig->conn_evd,
				   NULL, &rig->active);

	if (!ret)
		ret = ep_create(rig->ia, rig->pz, rig->dto_evd, rig->dto_evd, rig->conn_evd, NULL,
				&rig->passive);
	return ret;
}

DAT_RETURN ofi_objects_create(struct ofi_rig *rig)
{
	DAT_RETURN ret = DAT_SUCCESS;

	if (getenv("DAT_TEST_SECOND_ZONE"))
		ret = pz_create(rig->ia, &rig->first_pz);
	if (!ret)
		ret = pz_create(rig->ia, &rig->pz);
	if (!ret)
		ret = evd_create(rig->ia, 64, DAT_HANDLE_NULL,
				 (DAT_EVD_FLAGS)(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG),
				 &rig->dto_evd);
	if (!ret)
		ret = evd_create(rig->ia, 8, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG,
				 &rig->conn_evd);
	if (!ret)
		ret = evd_create(rig->ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &rig->cr_evd);
	if (!ret)
		ret = ofi_lmr_create(rig);
	if (!ret)
		ret = ofi_eps_create(rig);
	if (!ret)
		ret = psp_create_any(rig->ia, &rig->port, rig->cr_evd, DAT_PSP_CONSUMER_FLAG,
				     &rig->psp);
	return ret;
}

DAT_EVENT ofi_event(DAT_EVD_HANDLE evd)
{
	DAT_EVENT event;
	DAT_COUNT more;

	ck_dat(evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more));
	return event;
}

DAT_RETURN ofi_connect_begin(struct ofi_rig *rig)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	return ep_connect(rig->active, (DAT_IA_ADDRESS_PTR)&to, rig->port, DAT_TIMEOUT_INFINITE, 0,
			  NULL, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

DAT_RETURN ofi_connect_end(struct ofi_rig *rig)
{
	DAT_EVENT event = ofi_event(rig->cr_evd);
	DAT_RETURN ret;

	ret = cr_accept(event.event_data.cr_arrival_event_data.cr_handle, rig->passive, 0, NULL);
	if (ret)
		return ret;
	for (unsigned i = 0; i < 2; i++)
		if (ofi_event(rig->conn_evd).event_number != DAT_CONNECTION_EVENT_ESTABLISHED)
			return DAT_ERROR(DAT_ABORT, DAT_NO_SUBTYPE);
	return DAT_SUCCESS;
}

DAT_RETURN ofi_connect(struct ofi_rig *rig)
{
	DAT_RETURN ret = ofi_connect_begin(rig);

	return ret ? ret : ofi_connect_end(rig);
}

void ofi_rig_open(struct ofi_rig *rig)
{
	ck_dat(ofi_ia_open(rig, "scripted 127.0.0.1"));
	ck_dat(ofi_objects_create(rig));
	ck_dat(ofi_connect(rig));
}

void ofi_rig_close(struct ofi_rig *rig)
{
	if (rig->active)
		ck_dat(ep_free(rig->active));
	if (rig->passive)
		ck_dat(ep_free(rig->passive));
	if (rig->psp)
		ck_dat(psp_free(rig->psp));
	if (rig->lmr)
		ck_dat(lmr_free(rig->lmr));
	if (rig->cr_evd)
		ck_dat(evd_free(rig->cr_evd));
	if (rig->conn_evd)
		ck_dat(evd_free(rig->conn_evd));
	if (rig->dto_evd)
		ck_dat(evd_free(rig->dto_evd));
	if (rig->pz)
		ck_dat(pz_free(rig->pz));
	if (rig->first_pz)
		ck_dat(pz_free(rig->first_pz));
	if (rig->ia)
		ck_dat(ia_close(rig->ia, DAT_CLOSE_GRACEFUL_FLAG));
	free(rig->memory);
	for (enum ff_kind kind = FF_INFO; kind < FF_KINDS; kind++)
		ck_assert_msg(!ff_alive(kind), "%u objects of kind %d are left", ff_alive(kind),
			      (int)kind);
	ck_assert_uint_eq(count_entries("/proc/self/fd"), descriptors_open_at_first);
}

void ofi_rig_lock(struct ofi_rig *rig)
{
	cancel_forbid();
	mutex_lock(&((struct ia *)rig->ia)->lock);
}

void ofi_rig_unlock(struct ofi_rig *rig)
{
	mutex_unlock(&((struct ia *)rig->ia)->lock);
	cancel_allow(PTHREAD_CANCEL_ENABLE);
}

DAT_DTO_COMPLETION_STATUS ofi_completion(struct ofi_rig *rig)
{
	const DAT_EVENT event = ofi_event(rig->dto_evd);

	ck_assert_uint_eq(event.event_number, DAT_DTO_COMPLETION_EVENT);
	return event.event_data.dto_completion_event_data.status;
}

DAT_DTO_COMPLETION_STATUS ofi_write(struct ofi_rig *rig, DAT_RMR_CONTEXT context)
{
	DAT_RMR_TRIPLET target = rig->target;

	target.rmr_context = context;
	memset(rig->memory, 'x', OFI_MEMORY / 2);
	memset(rig->memory + OFI_MEMORY / 2, 0, OFI_MEMORY / 2);
	ck_dat(ep_post_rdma_write(rig->active, 1, &rig->segment, (DAT_DTO_COOKIE){ .as_64 = 1 },
				  &target, DAT_COMPLETION_DEFAULT_FLAG));
	return ofi_completion(rig);
}
