/* SPDX-License-Identifier: BSD-2-Clause */
/* dtest -q: the attributes of the IA and of its provider, one a line. */
#include "dtest.h"

#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>

enum dtest_field_kind {
	TEXT,  /* char array */
	WORD,  /* DAT_UINT32 */
	COUNT, /* DAT_COUNT */
	FLAGS, /* an enum of 4 bytes */
	BOOLEAN,
	LENGTH, /* DAT_VLEN, DAT_VADDR, DAT_SEG_LENGTH */
};

struct dtest_field {
	const char *name;
	enum dtest_field_kind kind;
	size_t offset, size;
};

/* clang-format off */
#define FIELD(attr, member, kind)	\
	{ #member, kind, offsetof(attr, member), sizeof(((attr *)NULL)->member) }
#define IA_FIELD(member, kind)		FIELD(DAT_IA_ATTR, member, kind)
#define PROVIDER_FIELD(member, kind)	FIELD(DAT_PROVIDER_ATTR, member, kind)
/* clang-format on */

static const struct dtest_field ia_fields[] = {
	IA_FIELD(adapter_name, TEXT),
	IA_FIELD(vendor_name, TEXT),
	IA_FIELD(hardware_version_major, WORD),
	IA_FIELD(hardware_version_minor, WORD),
	IA_FIELD(firmware_version_major, WORD),
	IA_FIELD(firmware_version_minor, WORD),
	IA_FIELD(max_eps, COUNT),
	IA_FIELD(max_dto_per_ep, COUNT),
	IA_FIELD(max_rdma_read_per_ep_in, COUNT),
	IA_FIELD(max_rdma_read_per_ep_out, COUNT),
	IA_FIELD(max_evds, COUNT),
	IA_FIELD(max_evd_qlen, COUNT),
	IA_FIELD(max_iov_segments_per_dto, COUNT),
	IA_FIELD(max_lmrs, COUNT),
	IA_FIELD(max_lmr_block_size, LENGTH),
	IA_FIELD(max_lmr_virtual_address, LENGTH),
	IA_FIELD(max_pzs, COUNT),
	IA_FIELD(max_message_size, LENGTH),
	IA_FIELD(max_rdma_size, LENGTH),
	IA_FIELD(max_rmrs, COUNT),
	IA_FIELD(max_rmr_target_address, LENGTH),
	IA_FIELD(max_srqs, COUNT),
	IA_FIELD(max_ep_per_srq, COUNT),
	IA_FIELD(max_recv_per_srq, COUNT),
	IA_FIELD(max_iov_segments_per_rdma_read, COUNT),
	IA_FIELD(max_iov_segments_per_rdma_write, COUNT),
	IA_FIELD(max_rdma_read_in, COUNT),
	IA_FIELD(max_rdma_read_out, COUNT),
	IA_FIELD(max_rdma_read_per_ep_in_guaranteed, BOOLEAN),
	IA_FIELD(max_rdma_read_per_ep_out_guaranteed, BOOLEAN),
#if DAT_EDITION == 2
	IA_FIELD(zb_supported, BOOLEAN),
	IA_FIELD(extension_supported, FLAGS),
	IA_FIELD(extension_version, COUNT),
#endif
};

static const struct dtest_field provider_fields[] = {
	PROVIDER_FIELD(provider_name, TEXT),
	PROVIDER_FIELD(provider_version_major, WORD),
	PROVIDER_FIELD(provider_version_minor, WORD),
	PROVIDER_FIELD(dapl_version_major, WORD),
	PROVIDER_FIELD(dapl_version_minor, WORD),
	PROVIDER_FIELD(lmr_mem_types_supported, FLAGS),
	PROVIDER_FIELD(iov_ownership_on_return, FLAGS),
	PROVIDER_FIELD(dat_qos_supported, FLAGS),
	PROVIDER_FIELD(completion_flags_supported, FLAGS),
	PROVIDER_FIELD(is_thread_safe, BOOLEAN),
	PROVIDER_FIELD(max_private_data_size, COUNT),
	PROVIDER_FIELD(supports_multipath, BOOLEAN),
	PROVIDER_FIELD(ep_creator, FLAGS),
	PROVIDER_FIELD(pz_support, FLAGS),
	PROVIDER_FIELD(optimal_buffer_alignment, WORD),
	PROVIDER_FIELD(srq_supported, BOOLEAN),
	PROVIDER_FIELD(srq_watermarks_supported, COUNT),
	PROVIDER_FIELD(srq_ep_pz_difference_supported, BOOLEAN),
	PROVIDER_FIELD(srq_info_supported, COUNT),
	PROVIDER_FIELD(ep_recv_info_supported, COUNT),
	PROVIDER_FIELD(lmr_sync_req, BOOLEAN),
	PROVIDER_FIELD(dto_async_return_guaranteed, BOOLEAN),
	PROVIDER_FIELD(rdma_write_for_rdma_read_req, BOOLEAN),
#if DAT_EDITION == 2
	PROVIDER_FIELD(rdma_read_lmr_rmr_context_exposure, BOOLEAN),
	PROVIDER_FIELD(rmr_scope_supported, FLAGS),
	PROVIDER_FIELD(is_signal_safe, BOOLEAN),
	PROVIDER_FIELD(ha_supported, BOOLEAN),
	PROVIDER_FIELD(ha_loadbalancing, FLAGS),
#endif
};

static void dtest_print_field(const char *whose, const struct dtest_field *field, const void *attr)
{
	const void *value = (const char *)attr + field->offset;
	char text[32];

	switch (field->kind) {
	case TEXT:
		dtest_print("%s %s: %.*s", whose, field->name, DAT_NAME_MAX_LENGTH,
			    (const char *)value);
		return;
	case WORD:
		(void)snprintf(text, sizeof(text), "%u", *(const DAT_UINT32 *)value);
		break;
	case COUNT:
		(void)snprintf(text, sizeof(text), "%d", *(const DAT_COUNT *)value);
		break;
	case FLAGS:
		(void)snprintf(text, sizeof(text), "%#x", *(const DAT_UINT32 *)value);
		break;
	case BOOLEAN:
		(void)snprintf(text, sizeof(text), "%s",
			       *(const DAT_BOOLEAN *)value ? "yes" : "no");
		break;
	case LENGTH:
		(void)snprintf(text, sizeof(text), "%#" PRIx64,
			       field->size == sizeof(DAT_UINT32) ? *(const DAT_UINT32 *)value
								 : *(const DAT_UINT64 *)value);
		break;
	}
	dtest_print("%s %s: %s", whose, field->name, text);
}

static void dtest_print_fields(const char *whose, const struct dtest_field *fields, size_t count,
			       const void *attr)
{
	for (size_t i = 0; i < count; i++)
		dtest_print_field(whose, &fields[i], attr);
}

static void dtest_print_named(const char *whose, const char *what, DAT_COUNT count,
			      const DAT_NAMED_ATTR *named)
{
	for (DAT_COUNT i = 0; named && i < count; i++)
		dtest_print("%s %s %s: %s", whose, what, named[i].name, named[i].value);
}

/* Rows and columns are software, connection request, DTO, connection, RMR bind, asynchronous. */
static void dtest_print_merging(const DAT_PROVIDER_ATTR *attr)
{
	for (int row = 0; row < 6; row++) {
		char text[7] = "";

		for (int column = 0; column < 6; column++)
			text[column] = attr->evd_stream_merging_supported[row][column] ? '1' : '0';
		dtest_print("provider evd_stream_merging_supported[%d]: %s", row, text);
	}
}

int dtest_print_attributes(struct dtest *t)
{
	DAT_IA_ATTR ia;
	DAT_PROVIDER_ATTR provider;
	char address[NI_MAXHOST];

	if (CALL(dat_ia_query, t->ia, NULL, DAT_IA_FIELD_ALL, &ia, DAT_PROVIDER_FIELD_ALL,
		 &provider) < 0)
		return -1;
	dtest_print_fields("IA", ia_fields, sizeof(ia_fields) / sizeof(ia_fields[0]), &ia);
	if (ia.ia_address_ptr &&
	    tool_address_text(ia.ia_address_ptr, address, sizeof(address)) == 0)
		dtest_print("IA ia_address: %s", address);
	dtest_print_named("IA", "transport_attr", ia.num_transport_attr, ia.transport_attr);
	dtest_print_named("IA", "vendor_attr", ia.num_vendor_attr, ia.vendor_attr);
	dtest_print_fields("provider", provider_fields,
			   sizeof(provider_fields) / sizeof(provider_fields[0]), &provider);
	dtest_print_merging(&provider);
	dtest_print_named("provider", "provider_specific_attr", provider.num_provider_specific_attr,
			  provider.provider_specific_attr);
	return 0;
}
