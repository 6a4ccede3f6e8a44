/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attributes and limits of an IA, of this provider and of endpoints: what the device grants, less
 * what the core needs itself. attr1.c and attr2.c have those in which the editions of DAT differ.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core.h"

/* Kept whole in the library, so that strings(1) shows the version. */
static const char library_name[] __attribute__((used)) = "dapl " PACKAGE_VERSION;

/* the type of a length among the attributes, of 32 bits in DAT 2.0 */
typedef __typeof__(((DAT_EP_ATTR *)0)->max_message_size) attr_size;

/* default limit of a message and of an RDMA, in bytes */
#define DEFAULT_SIZE	 (UINT64_C(1) << 31)
#define BUFFER_ALIGNMENT 64
/* ep_recv_info_supported: both counts of dat_ep_recv_query, Solaris's bits */
#define RECV_INFO_BUFFERS 0x01
#define RECV_INFO_SPAN	  0x10
/* srq_watermarks_supported, srq_info_supported: Solaris's bits, too */
#define SRQ_WATERMARK_LOW    0x001
#define SRQ_INFO_OUTSTANDING 0x10

DAT_COUNT attr_max_evd_qlen(const struct ia *ia)
{
	return (DAT_COUNT)(ia->attr->max_cqe > CQ_RESERVE ? ia->attr->max_cqe - CQ_RESERVE : 1);
}

/*
 * Returns how many transfers one direction of an endpoint can have outstanding, if their
 * completions have an EVD of their own: the queue pair holds so many, and an EVD can be made for
 * them.
 */
static DAT_COUNT max_dtos(const struct ia *ia)
{
	unsigned max_qp_wr = ia->attr->max_qp_wr;

	if (max_qp_wr <= RING_SLACK)
		return 0;
	return (DAT_COUNT)min_u64(max_qp_wr - RING_SLACK, (unsigned)attr_max_evd_qlen(ia));
}

/* Returns how many bytes a message or an RDMA can have. */
static DAT_VLEN max_length(const struct tp_attr *tp)
{
	return min_u64(tp->max_message, TP_MAX_LENGTH);
}

/* All receives of a queue may complete on one EVD, so that limits them, too. */
DAT_COUNT attr_max_srq_dtos(const struct ia *ia)
{
	const struct tp_attr *tp = ia->attr;

	return tp->max_srq ? (DAT_COUNT)min_u64(tp->max_srq_wr, (unsigned)attr_max_evd_qlen(ia))
			   : 0;
}

void attr_ia(const struct ia *ia, DAT_IA_ATTR *attr)
{
	const struct tp_attr *tp = ia->attr;

	memset(attr, 0, sizeof(*attr));
	snprintf(attr->vendor_name, sizeof(attr->vendor_name), "%s", tp->vendor);
	attr->hardware_version_major = tp->hw_version;
	attr->firmware_version_major = tp->fw_major;
	attr->firmware_version_minor = tp->fw_minor;
	/* DAT_IA_ADDRESS_PTR has no const */
	attr->ia_address_ptr = (DAT_IA_ADDRESS_PTR)(uintptr_t)&tp->addr;
	attr->max_eps = (DAT_COUNT)tp->max_qp;
	attr->max_dto_per_ep = max_dtos(ia);
	attr->max_rdma_read_per_ep_in = (DAT_COUNT)tp->max_read_in;
	attr->max_rdma_read_per_ep_out = (DAT_COUNT)tp->max_read_out;
	attr->max_evds = (DAT_COUNT)tp->max_cq;
	attr->max_evd_qlen = attr_max_evd_qlen(ia);
	attr->max_iov_segments_per_dto = (DAT_COUNT)tp->max_sge;
	attr->max_lmrs = (DAT_COUNT)tp->max_mr;
	attr->max_lmr_virtual_address = UINTPTR_MAX;
	attr->max_pzs = (DAT_COUNT)tp->max_pd;
	attr->max_message_size = (attr_size)max_length(tp);
	attr->max_rdma_size = (attr_size)max_length(tp);
	/* without windows each bind registers a region */
	attr->max_rmrs = (DAT_COUNT)(tp->max_mw ? tp->max_mw : tp->max_mr);
	attr->max_rmr_target_address = UINT64_MAX;
	attr->max_srqs = (DAT_COUNT)tp->max_srq;
	attr->max_ep_per_srq = (DAT_COUNT)(tp->max_srq ? tp->max_qp : 0);
	attr->max_recv_per_srq = attr_max_srq_dtos(ia);
	attr->max_iov_segments_per_rdma_read = (DAT_COUNT)tp->max_read_sge;
	attr->max_iov_segments_per_rdma_write = (DAT_COUNT)tp->max_sge;
	attr->max_rdma_read_in = (DAT_COUNT)tp->max_read_in_total;
	attr->max_rdma_read_out = (DAT_COUNT)tp->max_read_out; /* devices report no total */
	attr->max_rdma_read_per_ep_in_guaranteed = tp->max_read_in_total >=
						   (uint64_t)tp->max_read_in * tp->max_qp;
	attr->max_rdma_read_per_ep_out_guaranteed = DAT_TRUE;
	attr_ia_own(ia, attr);
}

/*
 * Version and thread safety are those of the name that was opened, because a registry identifies
 * its entry by them. The memory types are a union of values: VIRTUAL is 0, and SO_VIRTUAL equals
 * LMR and SHARED_VIRTUAL together.
 */
void attr_provider(const struct ia *ia, DAT_PROVIDER_ATTR *attr)
{
	/* the field is const for consumers */
	DAT_BOOLEAN *merging = (DAT_BOOLEAN *)(uintptr_t)attr->evd_stream_merging_supported;
	const size_t streams = sizeof(attr->evd_stream_merging_supported) / sizeof(*merging);

	memset(attr, 0, sizeof(*attr));
	snprintf(attr->provider_name, sizeof(attr->provider_name), "%s", library_name);
	attr->dapl_version_major = ia->provider->info.dapl_version_major;
	attr->dapl_version_minor = ia->provider->info.dapl_version_minor;
	attr->lmr_mem_types_supported = ia->attr->caps & TP_CAP_RELAXED_ONLY
						? DAT_MEM_TYPE_VIRTUAL
						: DAT_MEM_TYPE_SO_VIRTUAL;
	attr->iov_ownership_on_return = DAT_IOV_CONSUMER;
	attr->dat_qos_supported = DAT_QOS_BEST_EFFORT;
	attr->completion_flags_supported = (DAT_COMPLETION_FLAGS)ALL_COMPLETION_FLAGS;
	attr->is_thread_safe = ia->provider->info.is_thread_safe;
	attr->max_private_data_size = (DAT_COUNT)ia->attr->max_request_pdata;
	attr->ep_creator = DAT_PSP_CREATES_EP_IFASKED;
	attr->pz_support = DAT_PZ_UNIQUE;
	attr->optimal_buffer_alignment = BUFFER_ALIGNMENT;
	for (size_t i = 0; i < streams; i++)
		merging[i] = DAT_TRUE;
	if (ia->attr->max_srq) {
		attr->srq_supported = DAT_TRUE;
		attr->srq_watermarks_supported = SRQ_WATERMARK_LOW;
		attr->srq_ep_pz_difference_supported = !!(ia->attr->caps & TP_CAP_SRQ_ANY_PD);
		attr->srq_info_supported = SRQ_INFO_OUTSTANDING;
	}
	attr->ep_recv_info_supported = RECV_INFO_BUFFERS | RECV_INFO_SPAN;
	attr->dto_async_return_guaranteed = DAT_TRUE;
	attr->rdma_write_for_rdma_read_req = (ia->attr->caps & TP_CAP_READ_NEEDS_WRITE) != 0;
	attr_provider_own(ia, attr);
}

/*
 * The counts among the attributes of an endpoint, and their defaults, which are OFED's.
 */
static const struct ep_count {
	const char *name;
	size_t offset;
	DAT_COUNT fallback;
} ep_counts[] = {
#define COUNT(member, fallback)                                                                    \
	{                                                                                          \
#member, offsetof(DAT_EP_ATTR, member), fallback                                   \
	}
	COUNT(max_recv_dtos, 16),    COUNT(max_request_dtos, 16),  COUNT(max_recv_iov, 4),
	COUNT(max_request_iov, 4),   COUNT(max_rdma_read_in, 8),   COUNT(max_rdma_read_out, 8),
	COUNT(max_rdma_read_iov, 4), COUNT(max_rdma_write_iov, 4),
#undef COUNT
};

#define EP_COUNTS ARRAY_SIZE(ep_counts)

/* Returns where the count with that number is in @attr. */
static DAT_COUNT *ep_count(DAT_EP_ATTR *attr, unsigned i)
{
	return (DAT_COUNT *)((char *)attr + ep_counts[i].offset);
}

unsigned attr_ep_work_requests(const struct ia *ia, const DAT_EP_ATTR *attr)
{
	uint64_t per_read = attr_read_work_requests(ia->attr,
						    max_u64((unsigned)attr->max_rdma_read_iov, 1));
	uint64_t least = (uint64_t)(unsigned)attr->max_request_dtos + RING_SLACK;
	uint64_t wanted = per_read * (unsigned)attr->max_request_dtos + RING_SLACK;
	uint64_t limit = min_u64(ia->attr->max_qp_wr, ia->attr->max_cqe);

	return (unsigned)min_u64(wanted, max_u64(limit, least));
}

/* Writes the largest attributes that an endpoint can have. */
static void ep_limits(const struct ia *ia, DAT_EP_ATTR *attr)
{
	const struct tp_attr *tp = ia->attr;

	*attr = (DAT_EP_ATTR){
		.service_type = DAT_SERVICE_TYPE_RC,
		.max_message_size = (attr_size)max_length(tp),
		.max_rdma_size = (attr_size)max_length(tp),
		.qos = DAT_QOS_BEST_EFFORT,
		.recv_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG,
		.request_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG,
		.max_recv_dtos = max_dtos(ia),
		.max_request_dtos = max_dtos(ia),
		.max_recv_iov = (DAT_COUNT)tp->max_sge,
		.max_request_iov = (DAT_COUNT)tp->max_sge,
		.max_rdma_read_in = (DAT_COUNT)tp->max_read_in,
		.max_rdma_read_out = (DAT_COUNT)tp->max_read_out,
		.max_rdma_read_iov = (DAT_COUNT)tp->max_read_sge,
		.max_rdma_write_iov = (DAT_COUNT)tp->max_sge,
	};
}

void attr_ep_default(const struct ia *ia, DAT_EP_ATTR *attr)
{
	ep_limits(ia, attr);
	attr->max_message_size = (attr_size)min_u64(attr->max_message_size, DEFAULT_SIZE);
	attr->max_rdma_size = (attr_size)min_u64(attr->max_rdma_size, DEFAULT_SIZE);
	for (unsigned i = 0; i < EP_COUNTS; i++)
		if (*ep_count(attr, i) > ep_counts[i].fallback)
			*ep_count(attr, i) = ep_counts[i].fallback;
	/* split reads take more room, so only those get it who ask for it */
	attr->max_rdma_read_iov = (DAT_COUNT)min_u64((unsigned)attr->max_rdma_read_iov,
						     ia->attr->max_read_wr_sge);
}

/*
 * Programs ask for any combination of completion flags, and every provider has taken them. Those
 * that configure nothing, unknown ones among them, count as 0.
 */
#define REQUEST_CONFIG_FLAGS (DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_EVD_THRESHOLD_FLAG)
#define RECV_CONFIG_FLAGS    (REQUEST_CONFIG_FLAGS | DAT_COMPLETION_SOLICITED_WAIT_FLAG)

/*
 * Returns whether the counts are in range, and fit each other; if not, a line of the log says why.
 */
static bool counts_legal(const DAT_EP_ATTR *attr, DAT_EP_ATTR *limits)
{
	DAT_EP_ATTR asked = *attr;

	for (unsigned i = 0; i < EP_COUNTS; i++)
		if (*ep_count(&asked, i) < 0 || *ep_count(&asked, i) > *ep_count(limits, i)) {
			log_ep("EP attributes: %s is %d, not 0 to %d", ep_counts[i].name,
			       *ep_count(&asked, i), *ep_count(limits, i));
			return false;
		}
	if ((!asked.max_recv_dtos || asked.max_recv_iov) &&
	    (!asked.max_request_dtos || asked.max_request_iov))
		return true;
	log_ep("EP attributes: transfers have no segments: max_recv_iov %d, max_request_iov %d",
	       asked.max_recv_iov, asked.max_request_iov);
	return false;
}

/* Clears what programs ask for although it has never had an effect, or leave uninitialised. */
static void ignore_ineffective(DAT_EP_ATTR *attr)
{
	const DAT_EP_ATTR asked = *attr;

	attr->request_completion_flags &= REQUEST_CONFIG_FLAGS;
	attr->recv_completion_flags &= RECV_CONFIG_FLAGS;
	attr->qos = DAT_QOS_BEST_EFFORT;
	attr->srq_soft_hw = 0; /* not looked at without an SRQ */
	attr->ep_transport_specific_count = 0;
	attr->ep_transport_specific = NULL;
	attr->ep_provider_specific_count = 0;
	attr->ep_provider_specific = NULL;
	if (memcmp(&asked, attr, sizeof(asked)) != 0)
		log_ep("EP attributes: ignored: request flags %#x, receive flags %#x, qos %#x, "
		       "srq_soft_hw %d, %d and %d specific attributes",
		       (unsigned)asked.request_completion_flags & ~REQUEST_CONFIG_FLAGS,
		       (unsigned)asked.recv_completion_flags & ~RECV_CONFIG_FLAGS,
		       (unsigned)asked.qos, asked.srq_soft_hw, asked.ep_transport_specific_count,
		       asked.ep_provider_specific_count);
}

/*
 * An attribute is granted as asked, or refused. 0 leaves the sizes and the segments of an RDMA
 * open; the latter came with DAT 1.2, so programs written for 1.1 don't set them. NULL leaves all
 * open.
 */
DAT_RETURN attr_ep_check(const struct ia *ia, const DAT_EP_ATTR *asked, DAT_RETURN bad,
			 DAT_EP_ATTR *attr)
{
	DAT_EP_ATTR limits;

	if (!asked) {
		attr_ep_default(ia, attr);
		return DAT_SUCCESS;
	}
	ep_limits(ia, &limits);
	if (!counts_legal(asked, &limits))
		return bad;
	if (attr_is_datagram(asked)) {
		if (!ia->attr->max_datagram)
			return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
		limits.service_type = asked->service_type;
		limits.max_message_size = (attr_size)ia->attr->max_datagram;
	}
	if (asked->service_type != limits.service_type ||
	    asked->max_message_size > limits.max_message_size ||
	    asked->max_rdma_size > limits.max_rdma_size) {
		log_ep("EP attributes: service_type %d, max_message_size %" PRIu64
		       ", max_rdma_size %" PRIu64 "; at most %" PRIu64 " bytes",
		       (int)asked->service_type, (uint64_t)asked->max_message_size,
		       (uint64_t)asked->max_rdma_size, (uint64_t)limits.max_rdma_size);
		return bad;
	}
	*attr = *asked;
	ignore_ineffective(attr);
	if (!attr->max_message_size)
		attr->max_message_size = limits.max_message_size;
	if (!attr->max_rdma_size)
		attr->max_rdma_size = limits.max_rdma_size;
	if (!attr->max_rdma_read_iov)
		attr->max_rdma_read_iov = (DAT_COUNT)min_u64((unsigned)attr->max_request_iov,
							     ia->attr->max_read_wr_sge);
	if (!attr->max_rdma_write_iov)
		attr->max_rdma_write_iov = attr->max_request_iov;
	return DAT_SUCCESS;
}
