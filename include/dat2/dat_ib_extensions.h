/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extensions of DAT 2.0 for InfiniBand, some of which RoCE and other transports have, too:
 * immediate data, atomic operations, datagrams, counters, queries without an instance.
 */
#ifndef _DAT_IB_EXTENSIONS_H_
#define _DAT_IB_EXTENSIONS_H_

#include <dat2/udat.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Every operation is a macro that calls dat_extension_op; it evaluates each argument once. The
 * comments follow the conventions of dat.h: ARGn is the n-th parameter of the macro, unless they
 * say otherwise. Every operation may also return the errors of dat_extension_op.
 *
 * A program asks dat_ia_query what an IA has: extension_supported must be DAT_EXTENSION_IB, and the
 * attribute of the operation "TRUE". extension_version is the version that the provider has; the
 * one of this header is 2.0.9.
 */
#define DAT_IB_EXTENSION_VERSION 209

/*
 * Names of attributes, in provider_specific_attr of dat_ia_query. The value is "TRUE" or "FALSE"; a
 * name that is missing stands for "FALSE".
 */
#define DAT_IB_ATTR_FETCH_AND_ADD "DAT_IB_FETCH_AND_ADD"
#define DAT_IB_ATTR_CMP_AND_SWAP  "DAT_IB_CMP_AND_SWAP"
#define DAT_IB_ATTR_IMMED_DATA	  "DAT_IB_IMMED_DATA"
#define DAT_IB_ATTR_UD		  "DAT_IB_UD"
#define DAT_IB_ATTR_COUNTERS	  "DAT_COUNTERS"
#define DAT_IB_ATTR_ON_DEMAND	  "DAT_LMR_ON_DEMAND"
#define DAT_ATTR_COUNTERS	  DAT_IB_ATTR_COUNTERS /* a name of earlier versions */

/*
 * Other attributes have no constants:
 *	DAT_IB_PROVIDER_NAME		how it connects: "CMA" is the rdma_cm
 *	DAT_IB_DEVICE_NAME		the name of the device, such as "mlx5_0"
 *	DAT_IB_CONNECTIVITY_MODE	"DIRECT" or "PROXY"
 *	DAT_IB_RDMA_READ		"TRUE" or "FALSE"
 *	DAT_IB_NODE_GUID		four groups of four hexadecimal digits, with colons
 *	DAT_IB_GID			eight groups
 *	DAT_IB_TRANSPORT_MTU		bytes, decimal
 *	DAT_IB_PORT_STATUS		"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "DEFER" or
 *					"UNKNOWN"
 *	DAT_IB_PORT_NUMBER		decimal, from 1
 *	DAT_EXTENSION_INTERFACE		"TRUE": the provider has dat_extension_op
 */

/* The numbers of extended events. event_data has the member that the comment names. */
typedef enum dat_ib_event_number {
	DAT_IB_DTO_EVENT = 0x40000, /* dto_completion_event_data */
	/* cr_arrival_event_data */
	DAT_IB_UD_CONNECTION_REQUEST_EVENT = 0x40001,
	/* connect_event_data, as the next two */
	DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED = 0x40002,
	DAT_IB_UD_CONNECTION_REJECT_EVENT = 0x40003,
	DAT_IB_UD_CONNECTION_ERROR_EVENT = 0x40004,
	DAT_IB_COLLECTIVE_EVENT = 0x40005 /* none of them */
} DAT_IB_EVENT_NUMBER;

/* The operations of dat_extension_op. */
typedef enum dat_ib_op {
	DAT_IB_FETCH_AND_ADD_OP = 0,
	DAT_IB_CMP_AND_SWAP_OP = 1,
	DAT_IB_RDMA_WRITE_IMMED_OP = 2,
	DAT_IB_UD_SEND_OP = 3,
	DAT_IB_QUERY_COUNTERS_OP = 4,
	DAT_IB_PRINT_COUNTERS_OP = 5,
	DAT_IB_COLLECTIVE_CREATE_MEMBER_OP = 6,
	DAT_IB_COLLECTIVE_FREE_MEMBER_OP = 7,
	DAT_IB_COLLECTIVE_CREATE_GROUP_OP = 8,
	DAT_IB_COLLECTIVE_FREE_GROUP_OP = 9,
	DAT_IB_COLLECTIVE_SET_CLOCK_OP = 10,
	DAT_IB_COLLECTIVE_READ_CLOCK_OP = 11,
	DAT_IB_COLLECTIVE_SCATTER_OP = 12,
	DAT_IB_COLLECTIVE_SCATTERV_OP = 13,
	DAT_IB_COLLECTIVE_GATHER_OP = 14,
	DAT_IB_COLLECTIVE_GATHERV_OP = 15,
	DAT_IB_COLLECTIVE_ALLGATHER_OP = 16,
	DAT_IB_COLLECTIVE_ALLGATHERV_OP = 17,
	DAT_IB_COLLECTIVE_ALLTOALL_OP = 18,
	DAT_IB_COLLECTIVE_ALLTOALLV_OP = 19,
	DAT_IB_COLLECTIVE_REDUCE_OP = 20,
	DAT_IB_COLLECTIVE_ALLREDUCE_OP = 21,
	DAT_IB_COLLECTIVE_REDUCE_SCATTER_OP = 22,
	DAT_IB_COLLECTIVE_SCAN_OP = 23,
	DAT_IB_COLLECTIVE_BROADCAST_OP = 24,
	DAT_IB_COLLECTIVE_BARRIER_OP = 25,
	DAT_IB_START_COUNTERS_OP = 26,
	DAT_IB_STOP_COUNTERS_OP = 27,
	DAT_IB_UD_CM_FREE_OP = 28,
	DAT_IB_UD_AH_FREE_OP = 29,
	DAT_IB_OPEN_QUERY_OP = 0x1000,
	DAT_IB_CLOSE_QUERY_OP = 0x2000
} DAT_IB_OP;

#define DAT_QUERY_COUNTERS_OP DAT_IB_QUERY_COUNTERS_OP /* names of earlier versions */
#define DAT_PRINT_COUNTERS_OP DAT_IB_PRINT_COUNTERS_OP

/* What an extended event tells. */
typedef enum dat_ib_ext_type {
	/* completions of requests */
	DAT_IB_FETCH_AND_ADD = 0,
	DAT_IB_CMP_AND_SWAP = 1,
	DAT_IB_RDMA_WRITE_IMMED = 2,

	/* completions of receives: val.immed is valid */
	DAT_IB_RDMA_WRITE_IMMED_DATA = 3, /* consumed by a write with immediate data */
	DAT_IB_RECV_IMMED_DATA = 4,	  /* of a message with such data, which no DAT call sends */

	/* datagrams */
	DAT_IB_UD_CONNECT_REQUEST = 5,
	DAT_IB_UD_REMOTE_AH = 6,	 /* active side: remote_ah and context are valid */
	DAT_IB_UD_PASSIVE_REMOTE_AH = 7, /* passive side: remote_ah and context are valid */
	DAT_IB_UD_SEND = 8,
	DAT_IB_UD_RECV = 9,
	DAT_IB_UD_CONNECT_REJECT = 10,
	DAT_IB_UD_CONNECT_ERROR = 11,

	/* collectives */
	DAT_IB_COLLECTIVE_CREATE_STATUS = 12,
	DAT_IB_COLLECTIVE_CREATE_DATA = 13,
	DAT_IB_COLLECTIVE_CLOCK_SET_STATUS = 14,
	DAT_IB_COLLECTIVE_SCATTER_STATUS = 15,
	DAT_IB_COLLECTIVE_SCATTERV_STATUS = 16,
	DAT_IB_COLLECTIVE_GATHER_STATUS = 17,
	DAT_IB_COLLECTIVE_GATHERV_STATUS = 18,
	DAT_IB_COLLECTIVE_ALLGATHER_STATUS = 19,
	DAT_IB_COLLECTIVE_ALLGATHERV_STATUS = 20,
	DAT_IB_COLLECTIVE_ALLTOALL_STATUS = 21,
	DAT_IB_COLLECTIVE_ALLTOALLV_STATUS = 22,
	DAT_IB_COLLECTIVE_REDUCE_STATUS = 23,
	DAT_IB_COLLECTIVE_ALLREDUCE_STATUS = 24,
	DAT_IB_COLLECTIVE_REDUCE_SCATTER_STATUS = 25,
	DAT_IB_COLLECTIVE_SCAN_STATUS = 26,
	DAT_IB_COLLECTIVE_BROADCAST_STATUS = 27,
	DAT_IB_COLLECTIVE_BARRIER_STATUS = 28
} DAT_IB_EXT_TYPE;

/*
 * Whether the operation of an extended event succeeded. Providers store the status of the transfer
 * here, so that any number but 0 is a failure; read its cause in dto_completion_event_data.
 */
typedef enum dat_ib_status {
	DAT_OP_SUCCESS = 0,
	DAT_IB_OP_ERR = 1,
	DAT_IB_COLL_COMP_ERR = 2
} DAT_IB_STATUS;

/* Types of return values, as DAT_RETURN_TYPE; ours return none of these. */
typedef enum dat_ib_return {
	DAT_IB_ERR = 0x10000000,
	DAT_IB_COLLECTIVE_ERR = 0x10000001
} DAT_IB_RETURN;

/* What completed, in operation of dto_completion_event_data; the other numbers are DAT_DTOS. */
typedef enum dat_ib_dtos {
	DAT_IB_DTO_RDMA_WRITE_IMMED = 8,
	DAT_IB_DTO_RECV_IMMED = 9, /* the receive that such a write consumed */
	DAT_IB_DTO_FETCH_ADD = 10,
	DAT_IB_DTO_CMP_SWAP = 11,
	DAT_IB_DTO_RECV_MSG_IMMED = 12, /* a receive of a message with immediate data */
	DAT_IB_DTO_SEND_UD = 13,
	DAT_IB_DTO_RECV_UD = 14,
	DAT_IB_DTO_RECV_UD_IMMED = 15, /* a datagram with immediate data */
	DAT_IB_DTO_COLLECTIVES = 16
} DAT_IB_DTOS;

/* Kinds of objects, as DAT_HANDLE_TYPE; there are none. */
typedef enum dat_ib_handle_type {
	DAT_IB_HANDLE_TYPE_EXT = 12,
	DAT_IB_HANDLE_TYPE_COLLECTIVE = 13
} DAT_IB_HANDLE_TYPE;

/* A stream, as DAT_EVD_FLAGS, of the events of collectives: nothing feeds it. */
typedef enum dat_ib_evd_extension_flags {
	DAT_IB_EVD_EXTENSION_FLAG = 0x200
} DAT_IB_EVD_EXTENSION_FLAGS;

/*
 * A privilege, as DAT_MEM_PRIV_FLAGS: peers may execute atomic operations on the region. Devices
 * need local write with it. On an IA with other extensions alone it has no effect.
 */
typedef enum dat_ib_mem_priv_flags { DAT_IB_MEM_PRIV_REMOTE_ATOMIC = 0x40 } DAT_IB_MEM_PRIV_FLAGS;

/* A service of endpoints, as DAT_SERVICE_TYPE: datagrams, see below. */
typedef enum dat_ib_service_type { DAT_IB_SERVICE_TYPE_UD = 1 } DAT_IB_SERVICE_TYPE;

/* Of libibverbs; a program that looks into it includes <infiniband/verbs.h>. */
struct ibv_ah;

/* The way to a datagram endpoint: what dat_ib_post_send_ud needs to know of its peer. */
typedef struct dat_ib_addr_handle {
	struct ibv_ah *ah;
	DAT_UINT32 qpn;		/* the number of the peer's queue pair */
	DAT_SOCK_ADDR6 ia_addr; /* of the peer; sockaddr_in or sockaddr_in6, by its family */
} DAT_IB_ADDR_HANDLE;

typedef struct dat_ib_immed_data {
	DAT_UINT32 data;
} DAT_IB_IMMED_DATA;

typedef struct dat_ib_collective_event_data {
	DAT_HANDLE handle;
	DAT_CONTEXT context;
} DAT_IB_COLLECTIVE_EVENT_DATA;

/*
 * What event_extension_data of a DAT_EVENT holds if its number is one of DAT_IB_EVENT_NUMBER: cast
 * its address to a pointer to this structure. The attribute makes that valid C, although the array
 * has elements of another type.
 */
typedef struct __attribute__((__may_alias__)) dat_ib_extension_event_data {
	DAT_IB_EXT_TYPE type;
	DAT_IB_STATUS status;
	union {
		DAT_IB_IMMED_DATA immed;
	} val;
	__extension__ union {
		DAT_IB_ADDR_HANDLE remote_ah;
		DAT_IB_COLLECTIVE_EVENT_DATA coll;
	};
	DAT_CONTEXT context; /* for dat_ib_ud_cm_free */
} DAT_IB_EXTENSION_EVENT_DATA;

/*
 * IMMEDIATE DATA AND ATOMIC OPERATIONS
 *
 * These are requests of a connected endpoint: order, limits, flags, fences and flushing are those
 * of dat_ep_post_rdma_write. A completion, unless it is suppressed, is a DAT_IB_DTO_EVENT on the
 * request EVD, whose dto_completion_event_data is filled as that of any transfer.
 */

/*
 * dat_ib_post_rdma_write_immed is dat_ep_post_rdma_write, and the peer receives an event with
 * immed. Without segments only immed is sent; then remote is not looked at and may be null.
 *
 * The request completes with DAT_IB_DTO_RDMA_WRITE_IMMED and type DAT_IB_RDMA_WRITE_IMMED. At the
 * peer the write consumes a posted receive, whose memory is not touched; it completes with
 * DAT_IB_DTO_RECV_IMMED and type DAT_IB_RDMA_WRITE_IMMED_DATA, with its own cookie and the bytes
 * that were written. The bytes of immed are not reordered: between hosts of different byte order,
 * and with a program of libibverbs that uses htonl, one side has to convert.
 *
 * Unsafe.
 * DAT_MODEL_NOT_SUPPORTED: the attribute DAT_IB_ATTR_IMMED_DATA is not "TRUE"
 * Other errors: as dat_ep_post_rdma_write, whose parameters have the same places.
 * Source: dapl
 */
#define dat_ib_post_rdma_write_immed(ep, num_segments, iov, cookie, remote, immed, flags)          \
	dat_extension_op((DAT_EP_HANDLE)(ep), (DAT_IB_OP)DAT_IB_RDMA_WRITE_IMMED_OP,               \
			 (DAT_COUNT)(num_segments), (DAT_LMR_TRIPLET *)(iov), (cookie),            \
			 (DAT_RMR_TRIPLET *)(remote), (DAT_UINT32)(immed),                         \
			 (DAT_COMPLETION_FLAGS)(flags))

/*
 * dat_ib_post_fetch_and_add adds 64 bits, add, to 8 bytes at the beginning of remote, and writes
 * what was there before to iov: one segment of 8 bytes. No other atomic operation of the device
 * comes in between. Both sides have the bytes in the order of their host. The address in remote is
 * divisible by 8, and its region has DAT_IB_MEM_PRIV_REMOTE_ATOMIC. Atomic operations in flight
 * count as RDMA reads, see max_rdma_read_out. It completes with DAT_IB_DTO_FETCH_ADD and type
 * DAT_IB_FETCH_AND_ADD.
 *
 * Unsafe.
 * DAT_INVALID_PARAMETER, ARG4: iov is null, or its length is not 8; remote is null, or its address
 *	not divisible by 8. This number is the same for both operations
 * DAT_INVALID_STATE, EP_<state>: neither connected, accepted nor DISCONNECTED; EP_NOTREADY:
 *	max_rdma_read_out is 0
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: max_request_dtos requests are outstanding
 * DAT_MODEL_NOT_SUPPORTED: the attribute DAT_IB_ATTR_FETCH_AND_ADD is not "TRUE"
 * Source: dapl; the errors are our choice.
 */
#define dat_ib_post_fetch_and_add(ep, add, iov, cookie, remote, flags)                             \
	dat_extension_op((DAT_EP_HANDLE)(ep), (DAT_IB_OP)DAT_IB_FETCH_AND_ADD_OP,                  \
			 (DAT_UINT64)(add), (DAT_LMR_TRIPLET *)(iov), (cookie),                    \
			 (DAT_RMR_TRIPLET *)(remote), (DAT_COMPLETION_FLAGS)(flags))

/*
 * dat_ib_post_cmp_and_swap replaces 8 bytes at the beginning of remote by swap if they are equal to
 * compare, and writes what was there before to iov. It completes with DAT_IB_DTO_CMP_SWAP and type
 * DAT_IB_CMP_AND_SWAP, whether they were equal or not. Otherwise as dat_ib_post_fetch_and_add.
 *
 * Unsafe.
 * DAT_MODEL_NOT_SUPPORTED: the attribute DAT_IB_ATTR_CMP_AND_SWAP is not "TRUE"
 * Other errors: as dat_ib_post_fetch_and_add.
 * Source: dapl; the errors are our choice.
 */
#define dat_ib_post_cmp_and_swap(ep, compare, swap, iov, cookie, remote, flags)                    \
	dat_extension_op((DAT_EP_HANDLE)(ep), (DAT_IB_OP)DAT_IB_CMP_AND_SWAP_OP,                   \
			 (DAT_UINT64)(compare), (DAT_UINT64)(swap), (DAT_LMR_TRIPLET *)(iov),      \
			 (cookie), (DAT_RMR_TRIPLET *)(remote), (DAT_COMPLETION_FLAGS)(flags))

/*
 * DATAGRAMS (UD)
 *
 * An endpoint with DAT_IB_SERVICE_TYPE_UD sends messages of up to the MTU of the path to many
 * peers; they may be lost or arrive in another order. dat_ep_connect asks a peer for the way to it,
 * and may be called for many peers. There a DAT_IB_UD_CONNECTION_REQUEST_EVENT arrives, which
 * dat_cr_accept answers with an endpoint. DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED on either side
 * brings remote_ah, the peer's address handle. The state of the endpoint does not change. Receives
 * are posted with dat_ep_post_recv; the first 40 bytes of each are the header of the network, so a
 * receive has 40 bytes more than the message. dat_ep_post_send and RDMA return DAT_INVALID_HANDLE,
 * EP.
 *
 * The address handle and the context belong to the endpoint that has asked or answered, and go with
 * it. Private data are limited as those of connections, but of an answer to 136 bytes and of a
 * rejection to 132. libdaplcma2 has datagrams on InfiniBand and RoCE, between two programs that use
 * it. Elsewhere the attribute is "FALSE", and dat_ep_create returns DAT_MODEL_NOT_SUPPORTED.
 *
 * A send that fails stops the sends of the endpoint: what is outstanding, and what is posted until
 * that has completed, is flushed. If the device has stopped all of the endpoint,
 * DAT_ASYNC_ERROR_EP_BROKEN follows, and it sends and receives nothing any more.
 */

/*
 * dat_ib_post_send_ud sends one message to the peer that ah leads to; ah is read before the return.
 * iov and flags are as in dat_ep_post_send. It completes with a DAT_IB_DTO_EVENT,
 * DAT_IB_DTO_SEND_UD and type DAT_IB_UD_SEND, when the message has left. The peer's receive
 * completes with DAT_IB_DTO_RECV_UD and type DAT_IB_UD_RECV; its length includes the 40 bytes.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, EP: not a datagram endpoint
 * DAT_INVALID_PARAMETER, ARG2: num_segments is negative or above max_request_iov; ARG3: iov is
 *	null and there are segments, or more bytes than a datagram has; ARG4: ah is null, or no
 *	address handle of the IA and the protection zone of the endpoint
 * DAT_INVALID_STATE, EP_NOTREADY: the endpoint has no protection zone
 * DAT_INSUFFICIENT_RESOURCES, MEMORY: max_request_dtos requests are outstanding
 * DAT_MODEL_NOT_SUPPORTED: the attribute DAT_IB_ATTR_UD is not "TRUE"
 * Source: dapl; the errors are our choice.
 */
#define dat_ib_post_send_ud(ep, num_segments, iov, ah, cookie, flags)                              \
	dat_extension_op((DAT_EP_HANDLE)(ep), (DAT_IB_OP)DAT_IB_UD_SEND_OP,                        \
			 (DAT_COUNT)(num_segments), (DAT_LMR_TRIPLET *)(iov),                      \
			 (DAT_IB_ADDR_HANDLE *)(ah), (cookie), (DAT_COMPLETION_FLAGS)(flags))

/* A receive of datagrams is no extension. */
#define dat_ib_post_recv_ud dat_ep_post_recv

/*
 * dat_ib_ud_cm_free ends what the provider keeps of an exchange of address handles. context is that
 * of its extended event. Private data of the event is no longer valid, but remote_ah is.
 *
 * It ends an exchange that is still going on: no event follows.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, EP: not a datagram endpoint
 * DAT_INVALID_PARAMETER, ARG2: context is none of this endpoint, or was given up
 * DAT_MODEL_NOT_SUPPORTED: the attribute DAT_IB_ATTR_UD is not "TRUE"
 * Source: dapl, from extension_version 209 on; the errors are our choice.
 */
#define dat_ib_ud_cm_free(ep, context)                                                             \
	dat_extension_op((DAT_EP_HANDLE)(ep), (DAT_IB_OP)DAT_IB_UD_CM_FREE_OP, (context))

/*
 * dat_ib_ud_ah_free destroys an address handle that came with an event. Sends to it have completed.
 *
 * Unsafe.
 * DAT_INVALID_HANDLE, EP: not a datagram endpoint
 * DAT_INVALID_PARAMETER, ARG2: address_handle is null, or holds none of this endpoint
 * DAT_MODEL_NOT_SUPPORTED: the attribute DAT_IB_ATTR_UD is not "TRUE"
 * Source: dapl, from extension_version 209 on; the errors are our choice.
 */
#define dat_ib_ud_ah_free(ep, address_handle)                                                      \
	dat_extension_op((DAT_EP_HANDLE)(ep), (DAT_IB_OP)DAT_IB_UD_AH_FREE_OP,                     \
			 (DAT_IB_ADDR_HANDLE *)(address_handle))

/*
 * COUNTERS
 *
 * They begin at 0 when the IA, endpoint or EVD is created. A provider counts what costs it nothing;
 * the other counters stay 0. The attribute DAT_IB_ATTR_COUNTERS is "TRUE" if transfers, dequeues
 * and regions are counted, too.
 */

/* The counters of an IA: calls, memory of the provider, connection messages, link, device. */
typedef enum dat_ia_counters {
	DCNT_IA_PZ_CREATE = 0,
	DCNT_IA_PZ_FREE = 1,
	DCNT_IA_LMR_CREATE = 2,
	DCNT_IA_LMR_FREE = 3,
	DCNT_IA_RMR_CREATE = 4,
	DCNT_IA_RMR_FREE = 5,
	DCNT_IA_PSP_CREATE = 6,
	DCNT_IA_PSP_CREATE_ANY = 7,
	DCNT_IA_PSP_FREE = 8,
	DCNT_IA_RSP_CREATE = 9,
	DCNT_IA_RSP_FREE = 10,
	DCNT_IA_EVD_CREATE = 11,
	DCNT_IA_EVD_FREE = 12,
	DCNT_IA_EP_CREATE = 13,
	DCNT_IA_EP_FREE = 14,
	DCNT_IA_SRQ_CREATE = 15,
	DCNT_IA_SRQ_FREE = 16,
	DCNT_IA_SP_CR = 17,
	DCNT_IA_SP_CR_ACCEPTED = 18,
	DCNT_IA_SP_CR_REJECTED = 19,
	DCNT_IA_MEM_ALLOC = 20,
	DCNT_IA_MEM_ALLOC_DATA = 21,
	DCNT_IA_MEM_FREE = 22,
	DCNT_IA_ASYNC_ERROR = 23,
	DCNT_IA_ASYNC_QP_ERROR = 24,
	DCNT_IA_ASYNC_CQ_ERROR = 25,
	DCNT_IA_CM_LISTEN = 26,
	DCNT_IA_CM_REQ_TX = 27,
	DCNT_IA_CM_REQ_RX = 28,
	DCNT_IA_CM_REP_TX = 29,
	DCNT_IA_CM_REP_RX = 30,
	DCNT_IA_CM_RTU_TX = 31,
	DCNT_IA_CM_RTU_RX = 32,
	DCNT_IA_CM_USER_REJ_TX = 33,
	DCNT_IA_CM_USER_REJ_RX = 34,
	DCNT_IA_CM_ACTIVE_EST = 35,
	DCNT_IA_CM_PASSIVE_EST = 36,
	DCNT_IA_CM_AH_REQ_TX = 37,
	DCNT_IA_CM_AH_REQ_RX = 38,
	DCNT_IA_CM_AH_RESOLVED = 39,
	DCNT_IA_CM_DREQ_TX = 40,
	DCNT_IA_CM_DREQ_RX = 41,
	DCNT_IA_CM_DREP_TX = 42,
	DCNT_IA_CM_DREP_RX = 43,
	DCNT_IA_CM_MRA_TX = 44,
	DCNT_IA_CM_MRA_RX = 45,
	DCNT_IA_CM_REQ_FULLQ_POLL = 46,
	DCNT_IA_CM_ERR = 47,
	DCNT_IA_CM_ERR_REQ_FULLQ = 48,
	DCNT_IA_CM_ERR_REQ_DUP = 49,
	DCNT_IA_CM_ERR_REQ_RETRY = 50,
	DCNT_IA_CM_ERR_REP_DUP = 51,
	DCNT_IA_CM_ERR_REP_RETRY = 52,
	DCNT_IA_CM_ERR_RTU_DUP = 53,
	DCNT_IA_CM_ERR_RTU_RETRY = 54,
	DCNT_IA_CM_ERR_REFUSED = 55,
	DCNT_IA_CM_ERR_RESET = 56,
	DCNT_IA_CM_ERR_TIMEOUT = 57,
	DCNT_IA_CM_ERR_REJ_TX = 58,
	DCNT_IA_CM_ERR_REJ_RX = 59,
	DCNT_IA_CM_ERR_DREQ_DUP = 60,
	DCNT_IA_CM_ERR_DREQ_RETRY = 61,
	DCNT_IA_CM_ERR_DREP_DUP = 62,
	DCNT_IA_CM_ERR_DREP_RETRY = 63,
	DCNT_IA_CM_ERR_MRA_DUP = 64,
	DCNT_IA_CM_ERR_MRA_RETRY = 65,
	DCNT_IA_CM_ERR_UNEXPECTED = 66,
	DCNT_IA_LNK_ERR_RCV = 67,
	DCNT_IA_LNK_ERR_RCV_REM_PHYS = 68,
	DCNT_IA_LNK_ERR_RCV_CONSTRAINT = 69,
	DCNT_IA_LNK_ERR_XMT_DISCARDS = 70,
	DCNT_IA_LNK_ERR_XMT_CONTRAINT = 71,
	DCNT_IA_LNK_ERR_INTEGRITY = 72,
	DCNT_IA_LNK_ERR_EXC_BUF_OVERRUN = 73,
	DCNT_IA_LNK_WARN_RCV_SW_RELAY = 74,
	DCNT_IA_LNK_WARN_XMT_WAIT = 75,
	DCNT_IA_DIAG_ERR_RQ_RAE = 76,
	DCNT_IA_DIAG_ERR_RQ_OOS = 77,
	DCNT_IA_DIAG_ERR_RQ_RIRE = 78,
	DCNT_IA_DIAG_ERR_RQ_UDSDPRD = 79,
	DCNT_IA_DIAG_ERR_SQ_RAE = 80,
	DCNT_IA_DIAG_ERR_SQ_OOS = 81,
	DCNT_IA_DIAG_ERR_SQ_RIRE = 82,
	DCNT_IA_DIAG_ERR_SQ_RREE = 83,
	DCNT_IA_DIAG_ERR_SQ_TREE = 84,
	DCNT_IA_ALL_COUNTERS = 85 /* how many there are */
} DAT_IA_COUNTERS;

/* The counters of an endpoint; DATA: bytes, UD: datagrams, IMM: immediate data. */
typedef enum dat_ep_counters {
	DCNT_EP_CONNECT = 0,
	DCNT_EP_DISCONNECT = 1,
	DCNT_EP_POST_SEND = 2,
	DCNT_EP_POST_SEND_DATA = 3,
	DCNT_EP_POST_SEND_UD = 4,
	DCNT_EP_POST_SEND_UD_DATA = 5,
	DCNT_EP_POST_RECV = 6,
	DCNT_EP_POST_RECV_DATA = 7,
	DCNT_EP_POST_WRITE = 8,
	DCNT_EP_POST_WRITE_DATA = 9,
	DCNT_EP_POST_WRITE_IMM = 10,
	DCNT_EP_POST_WRITE_IMM_DATA = 11,
	DCNT_EP_POST_READ = 12,
	DCNT_EP_POST_READ_DATA = 13,
	DCNT_EP_POST_CMP_SWAP = 14,
	DCNT_EP_POST_FETCH_ADD = 15,
	DCNT_EP_RECV = 16,
	DCNT_EP_RECV_DATA = 17,
	DCNT_EP_RECV_UD = 18,
	DCNT_EP_RECV_UD_DATA = 19,
	DCNT_EP_RECV_IMM = 20,
	DCNT_EP_RECV_IMM_DATA = 21,
	DCNT_EP_RECV_RDMA_IMM = 22,
	DCNT_EP_RECV_RDMA_IMM_DATA = 23,
	DCNT_EP_ALL_COUNTERS = 24 /* how many there are */
} DAT_EP_COUNTERS;

/* The counters of an EVD; POLL: of its completion queue. */
typedef enum dat_evd_counters {
	DCNT_EVD_WAIT = 0,
	DCNT_EVD_WAIT_BLOCKED = 1,
	DCNT_EVD_WAIT_NOTIFY = 2,
	DCNT_EVD_DEQUEUE = 3,
	DCNT_EVD_DEQUEUE_FOUND = 4,
	DCNT_EVD_DEQUEUE_NOT_FOUND = 5,
	DCNT_EVD_DEQUEUE_POLL = 6,
	DCNT_EVD_DEQUEUE_POLL_FOUND = 7,
	DCNT_EVD_CONN_CALLBACK = 8,
	DCNT_EVD_DTO_CALLBACK = 9,
	DCNT_EVD_ALL_COUNTERS = 10 /* how many there are */
} DAT_EVD_COUNTERS;

/* The groups of counters of an IA that are sampled between start and stop. */
typedef enum dat_ia_counter_type {
	DCNT_IA_CM = 0,
	DCNT_IA_LNK = 1,
	DCNT_IA_DIAG = 2
} DAT_IA_COUNTER_TYPE;

/*
 * dat_ib_query_counters returns counters of handle, an IA, an endpoint or an EVD. counter is a
 * number of the enumeration of its kind, and values points to one DAT_UINT64; or counter is the
 * number of them, such as DCNT_EP_ALL_COUNTERS, and values points to that many. If reset is not 0
 * they are set to 0 afterwards.
 *
 * Safe; none gets lost between the reading and the reset.
 * DAT_INVALID_HANDLE, HANDLE1: handle is no IA, endpoint or EVD
 * DAT_INVALID_PARAMETER, ARG2: counter is none of the kind of handle; ARG3: values is null
 * Source: dapl; the errors are our choice.
 */
#define dat_ib_query_counters(handle, counter, values, reset)                                      \
	dat_extension_op((DAT_HANDLE)(handle), (DAT_IB_OP)DAT_IB_QUERY_COUNTERS_OP,                \
			 (int)(counter), (DAT_UINT64 *)(values), (int)(reset))

/*
 * dat_ib_print_counters prints the same counters to the provider's log, a line each, and resets
 * them as dat_ib_query_counters does. Of all counters it leaves out those that are not counted.
 *
 * Safe.
 * DAT_INVALID_HANDLE, HANDLE1: handle is no IA, endpoint or EVD
 * DAT_INVALID_PARAMETER, ARG2: counter is none of the kind of handle
 * Source: dapl; the errors are our choice.
 */
#define dat_ib_print_counters(handle, counter, reset)                                              \
	dat_extension_op((DAT_HANDLE)(handle), (DAT_IB_OP)DAT_IB_PRINT_COUNTERS_OP,                \
			 (int)(counter), (int)(reset))

#define dat_query_counters dat_ib_query_counters /* names of earlier versions */
#define dat_print_counters dat_ib_print_counters

/*
 * dat_ib_start_counter and dat_ib_stop_counter start and stop the sampling of a group of counters
 * of an IA; type is one of DAT_IA_COUNTER_TYPE. Nothing is sampled here.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG2: unknown type
 * DAT_MODEL_NOT_SUPPORTED: always
 * Source: dapl, whose macros do not compile: these parameters and the errors are our choice.
 */
#define dat_ib_start_counter(ia, type)                                                             \
	dat_extension_op((DAT_IA_HANDLE)(ia), (DAT_IB_OP)DAT_IB_START_COUNTERS_OP,                 \
			 (DAT_IA_COUNTER_TYPE)(type))
#define dat_ib_stop_counter(ia, type)                                                              \
	dat_extension_op((DAT_IA_HANDLE)(ia), (DAT_IB_OP)DAT_IB_STOP_COUNTERS_OP,                  \
			 (DAT_IA_COUNTER_TYPE)(type))

/* QUERY WITHOUT AN INSTANCE */

/*
 * dat_ib_open_query opens the IA called name for its attributes only, and returns them as
 * dat_ia_query does; one of the two structures may be null. *query is a handle for
 * dat_ib_close_query, and for nothing else. The pointers in the structures are valid until that
 * call.
 *
 * Blocks while the library is loaded and the device opened. Safe.
 * DAT_INVALID_PARAMETER, ARG3: name is null, or has 256 bytes or more; here ARGn counts the
 *	parameters of dat_extension_op, as dapl does. ARG4: query is null; ARG6: both structures are
 *	null
 * DAT_NOT_IMPLEMENTED: the provider has no queries
 * All other errors are those of dat_ia_openv.
 * Source: dapl; the errors are our choice.
 */
#define dat_ib_open_query(name, query, ia_mask, ia_attr, provider_mask, provider_attr)             \
	dat_extension_op(DAT_HANDLE_NULL, (DAT_IB_OP)DAT_IB_OPEN_QUERY_OP, (DAT_NAME_PTR)(name),   \
			 (DAT_HANDLE *)(query), (DAT_IA_ATTR_MASK)(ia_mask),                       \
			 (DAT_IA_ATTR *)(ia_attr), (DAT_PROVIDER_ATTR_MASK)(provider_mask),        \
			 (DAT_PROVIDER_ATTR *)(provider_attr))

/*
 * dat_ib_close_query ends what dat_ib_open_query opened.
 *
 * Blocks until the device has released its resources. Safe.
 * DAT_INVALID_HANDLE, IA: query is no handle of dat_ib_open_query
 * Source: dapl; the errors are our choice.
 */
#define dat_ib_close_query(query)                                                                  \
	dat_extension_op((DAT_HANDLE)(query), (DAT_IB_OP)DAT_IB_CLOSE_QUERY_OP)

/* NAMES */

/*
 * dat_strerror_extension returns the name of a code, of the extensions or of DAT: of the latter the
 * type. The class is ignored. The string is static.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG1: unknown type; its string says so; ARG2: message is null
 * Source: dapl; the errors are our choice.
 */
static __inline__ DAT_RETURN dat_strerror_extension(DAT_IB_RETURN value, const char **message)
{
	DAT_RETURN code = (DAT_RETURN)value & (DAT_TYPE_MASK | DAT_SUBTYPE_MASK);

	if (!message)
		return DAT_CLASS_ERROR | DAT_INVALID_PARAMETER | DAT_INVALID_ARG2;
	if (code == (DAT_RETURN)DAT_IB_ERR)
		*message = "DAT_IB_ERR";
	else if (code == (DAT_RETURN)DAT_IB_COLLECTIVE_ERR)
		*message = "DAT_IB_COLLECTIVE_ERR";
	else
		return dat_strerror(code, message, (const char **)NULL);
	return DAT_SUCCESS;
}

/*
 * dat_strerror_ext_status returns the name of the status of an extended event. The string is
 * static.
 *
 * Safe.
 * DAT_INVALID_PARAMETER, ARG1: unknown status, such as that of a transfer; its string says so;
 *	ARG2: message is null
 * Source: dapl; the errors are our choice.
 */
static __inline__ DAT_RETURN dat_strerror_ext_status(DAT_IB_STATUS status, const char **message)
{
	if (!message)
		return DAT_CLASS_ERROR | DAT_INVALID_PARAMETER | DAT_INVALID_ARG2;
	switch (status) {
	case DAT_OP_SUCCESS:
		*message = "DAT_OP_SUCCESS";
		return DAT_SUCCESS;
	case DAT_IB_OP_ERR:
		*message = "DAT_IB_OP_ERR";
		return DAT_SUCCESS;
	case DAT_IB_COLL_COMP_ERR:
		*message = "DAT_IB_COLL_COMP_ERR";
		return DAT_SUCCESS;
	}
	*message = "unknown extension status";
	return DAT_CLASS_ERROR | DAT_INVALID_PARAMETER | DAT_INVALID_ARG1;
}

/*
 * COLLECTIVES
 *
 * Nothing implements them: every operation returns DAT_NOT_IMPLEMENTED. Numbers, types and macros
 * are here so that programs compile which name them.
 */

/* names of attributes */
#define DAT_IB_COLL_SET_CLOCK	   "DAT_COLL_SET_CLOCK"
#define DAT_IB_COLL_READ_CLOCK	   "DAT_COLL_READ_CLOCK"
#define DAT_IB_COLL_BROADCAST	   "DAT_COLL_BROADCAST"
#define DAT_IB_COLL_BARRIER	   "DAT_COLL_BARRIER"
#define DAT_IB_COLL_SCATTER	   "DAT_COLL_SCATTER"
#define DAT_IB_COLL_SCATTERV	   "DAT_COLL_SCATTERV"
#define DAT_IB_COLL_GATHER	   "DAT_COLL_GATHER"
#define DAT_IB_COLL_GATHERV	   "DAT_COLL_GATHERV"
#define DAT_IB_COLL_ALLGATHER	   "DAT_COLL_ALLGATHER"
#define DAT_IB_COLL_ALLGATHERV	   "DAT_COLL_ALLGATHERV"
#define DAT_IB_COLL_ALLTOALL	   "DAT_COLL_ALLTOALL"
#define DAT_IB_COLL_ALLTOALLV	   "DAT_COLL_ALLTOALLV"
#define DAT_IB_COLL_REDUCE	   "DAT_COLL_REDUCE"
#define DAT_IB_COLL_ALLREDUCE	   "DAT_COLL_ALLREDUCE"
#define DAT_IB_COLL_REDUCE_SCATTER "DAT_COLL_REDUCE_SCATTER"
#define DAT_IB_COLL_SCAN	   "DAT_COLL_SCAN"

typedef DAT_HANDLE DAT_IB_COLLECTIVE_HANDLE;
typedef unsigned int DAT_IB_COLLECTIVE_RANK;
typedef unsigned int DAT_IB_COLLECTIVE_ID;
typedef void *DAT_IB_COLLECTIVE_MEMBER;

typedef enum dat_ib_collective_data_type {
	DAT_IB_COLLECTIVE_TYPE_INT8 = 0,
	DAT_IB_COLLECTIVE_TYPE_UINT8 = 1,
	DAT_IB_COLLECTIVE_TYPE_INT16 = 2,
	DAT_IB_COLLECTIVE_TYPE_UINT16 = 3,
	DAT_IB_COLLECTIVE_TYPE_INT32 = 4,
	DAT_IB_COLLECTIVE_TYPE_UINT32 = 5,
	DAT_IB_COLLECTIVE_TYPE_INT64 = 6,
	DAT_IB_COLLECTIVE_TYPE_UINT64 = 7,
	DAT_IB_COLLECTIVE_TYPE_FLOAT = 8,
	DAT_IB_COLLECTIVE_TYPE_DOUBLE = 9,
	DAT_IB_COLLECTIVE_TYPE_LONG_DOUBLE = 10,
	DAT_IB_COLLECTIVE_TYPE_SHORT_INT = 11,
	DAT_IB_COLLECTIVE_TYPE_2INT = 12,
	DAT_IB_COLLECTIVE_TYPE_FLOAT_INT = 13,
	DAT_IB_COLLECTIVE_TYPE_LONG_INT = 14,
	DAT_IB_COLLECTIVE_TYPE_DOUBLE_INT = 15
} DAT_IB_COLLECTIVE_DATA_TYPE;

typedef enum dat_ib_collective_reduce_data_op {
	DAT_IB_COLLECTIVE_REDUCE_OP_MAX = 0,
	DAT_IB_COLLECTIVE_REDUCE_OP_MIN = 1,
	DAT_IB_COLLECTIVE_REDUCE_OP_SUM = 2,
	DAT_IB_COLLECTIVE_REDUCE_OP_PROD = 3,
	DAT_IB_COLLECTIVE_REDUCE_OP_LAND = 4,
	DAT_IB_COLLECTIVE_REDUCE_OP_BAND = 5,
	DAT_IB_COLLECTIVE_REDUCE_OP_LOR = 6,
	DAT_IB_COLLECTIVE_REDUCE_OP_BOR = 7,
	DAT_IB_COLLECTIVE_REDUCE_OP_LXOR = 8,
	DAT_IB_COLLECTIVE_REDUCE_OP_BXOR = 9,
	DAT_IB_COLLECTIVE_REDUCE_OP_MAXLOC = 10,
	DAT_IB_COLLECTIVE_REDUCE_OP_MINLOC = 11
} DAT_IB_COLLECTIVE_REDUCE_DATA_OP;

typedef struct dat_ib_collective_group {
	int local_size;
	int local_rank;
	int *local_ranks;
	int external_size;
	int external_rank;
	int *external_ranks;
	int *intranode_table;
	int *internode_table;
	int is_comm_world;
} DAT_IB_COLLECTIVE_GROUP;

/*
 * The parameters of set_clock, read_clock, gatherv and alltoallv are our choice, because the macros
 * of dapl do not compile.
 */
#define dat_ib_collective_create_member(ia, progress, member, size)                                \
	dat_extension_op((DAT_IA_HANDLE)(ia), (DAT_IB_OP)DAT_IB_COLLECTIVE_CREATE_MEMBER_OP,       \
			 (void *)(progress), (DAT_IB_COLLECTIVE_MEMBER *)(member),                 \
			 (DAT_UINT32 *)(size))
#define dat_ib_collective_free_member(ia, member)                                                  \
	dat_extension_op((DAT_IA_HANDLE)(ia), (DAT_IB_OP)DAT_IB_COLLECTIVE_FREE_MEMBER_OP,         \
			 (DAT_IB_COLLECTIVE_MEMBER)(member))
#define dat_ib_collective_create_group(members, count, rank, id, group, evd, pz, context)          \
	dat_extension_op((DAT_EVD_HANDLE)(evd), (DAT_IB_OP)DAT_IB_COLLECTIVE_CREATE_GROUP_OP,      \
			 (DAT_IB_COLLECTIVE_MEMBER *)(members), (DAT_COUNT)(count),                \
			 (DAT_IB_COLLECTIVE_RANK)(rank), (DAT_IB_COLLECTIVE_ID)(id),               \
			 (DAT_IB_COLLECTIVE_GROUP *)(group), (DAT_PZ_HANDLE)(pz), (context))
#define dat_ib_collective_free_group(group)                                                        \
	dat_extension_op((DAT_IB_COLLECTIVE_HANDLE)(group),                                        \
			 (DAT_IB_OP)DAT_IB_COLLECTIVE_FREE_GROUP_OP)
#define dat_ib_collective_set_clock(group, clock, context)                                         \
	dat_extension_op((DAT_IB_COLLECTIVE_HANDLE)(group),                                        \
			 (DAT_IB_OP)DAT_IB_COLLECTIVE_SET_CLOCK_OP, (DAT_UINT64)(clock),           \
			 (context))
#define dat_ib_collective_read_clock(group, clock)                                                 \
	dat_extension_op((DAT_IB_COLLECTIVE_HANDLE)(group),                                        \
			 (DAT_IB_OP)DAT_IB_COLLECTIVE_READ_CLOCK_OP, (DAT_UINT64 *)(clock))
#define dat_ib_collective_scatter(group, send, send_length, receive, receive_length, root,         \
				  context, flags)                                                  \
	dat_extension_op((DAT_IB_COLLECTIVE_HANDLE)(group),                                        \
			 (DAT_IB_OP)DAT_IB_COLLECTIVE_SCATTER_OP, (DAT_PVOID)(send),               \
			 (DAT_COUNT)(send_length), (DAT_PVOID)(receive),                           \
			 (DAT_COUNT)(receive_length), (DAT_IB_COLLECTIVE_RANK)(root), (context),   \
			 (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_scatterv(group, send, send_lengths, send_offsets, receive,               \
				   receive_length, root, context, flags)                           \
	dat_extension_op((DAT_IB_COLLECTIVE_HANDLE)(group),                                        \
			 (DAT_IB_OP)DAT_IB_COLLECTIVE_SCATTERV_OP, (DAT_PVOID)(send),              \
			 (DAT_COUNT *)(send_lengths), (DAT_COUNT *)(send_offsets),                 \
			 (DAT_PVOID)(receive), (DAT_COUNT)(receive_length),                        \
			 (DAT_IB_COLLECTIVE_RANK)(root), (context), (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_gather(group, send, send_length, receive, receive_length, root, context, \
				 flags)                                                            \
	dat_extension_op((DAT_IB_COLLECTIVE_HANDLE)(group),                                        \
			 (DAT_IB_OP)DAT_IB_COLLECTIVE_GATHER_OP, (DAT_PVOID)(send),                \
			 (DAT_COUNT)(send_length), (DAT_PVOID)(receive),                           \
			 (DAT_COUNT)(receive_length), (DAT_IB_COLLECTIVE_RANK)(root), (context),   \
			 (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_gatherv(group, send, send_length, receive, receive_lengths,              \
				  receive_offsets, root, context, flags)                           \
	dat_extension_op((DAT_IB_COLLECTIVE_HANDLE)(group),                                        \
			 (DAT_IB_OP)DAT_IB_COLLECTIVE_GATHERV_OP, (DAT_PVOID)(send),               \
			 (DAT_COUNT)(send_length), (DAT_PVOID)(receive),                           \
			 (DAT_COUNT *)(receive_lengths), (DAT_COUNT *)(receive_offsets),           \
			 (DAT_IB_COLLECTIVE_RANK)(root), (context), (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_allgather(group, send, send_length, receive, receive_length, context,    \
				    flags)                                                         \
	dat_extension_op((DAT_IB_COLLECTIVE_HANDLE)(group),                                        \
			 (DAT_IB_OP)DAT_IB_COLLECTIVE_ALLGATHER_OP, (DAT_PVOID)(send),             \
			 (DAT_COUNT)(send_length), (DAT_PVOID)(receive),                           \
			 (DAT_COUNT)(receive_length), (context), (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_allgatherv(group, send, send_length, receive, receive_lengths,           \
				     receive_offsets, context, flags)                              \
	dat_extension_op((DAT_IB_COLLECTIVE_HANDLE)(group),                                        \
			 (DAT_IB_OP)DAT_IB_COLLECTIVE_ALLGATHERV_OP, (DAT_PVOID)(send),            \
			 (DAT_COUNT)(send_length), (DAT_PVOID)(receive),                           \
			 (DAT_COUNT *)(receive_lengths), (DAT_COUNT *)(receive_offsets),           \
			 (context), (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_alltoall(group, send, send_length, receive, receive_length, context,     \
				   flags)                                                          \
	dat_extension_op((DAT_IB_COLLECTIVE_HANDLE)(group),                                        \
			 (DAT_IB_OP)DAT_IB_COLLECTIVE_ALLTOALL_OP, (DAT_PVOID)(send),              \
			 (DAT_COUNT)(send_length), (DAT_PVOID)(receive),                           \
			 (DAT_COUNT)(receive_length), (context), (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_alltoallv(group, send, send_lengths, send_offsets, receive,              \
				    receive_lengths, receive_offsets, context, flags)              \
	dat_extension_op((DAT_IB_COLLECTIVE_HANDLE)(group),                                        \
			 (DAT_IB_OP)DAT_IB_COLLECTIVE_ALLTOALLV_OP, (DAT_PVOID)(send),             \
			 (DAT_COUNT *)(send_lengths), (DAT_COUNT *)(send_offsets),                 \
			 (DAT_PVOID)(receive), (DAT_COUNT *)(receive_lengths),                     \
			 (DAT_COUNT *)(receive_offsets), (context), (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_reduce(group, send, send_length, receive, receive_length, reduce, type,  \
				 root, context, flags)                                             \
	dat_extension_op((DAT_IB_COLLECTIVE_HANDLE)(group),                                        \
			 (DAT_IB_OP)DAT_IB_COLLECTIVE_REDUCE_OP, (DAT_PVOID)(send),                \
			 (DAT_COUNT)(send_length), (DAT_PVOID)(receive),                           \
			 (DAT_COUNT)(receive_length), (DAT_IB_COLLECTIVE_REDUCE_DATA_OP)(reduce),  \
			 (DAT_IB_COLLECTIVE_DATA_TYPE)(type), (DAT_IB_COLLECTIVE_RANK)(root),      \
			 (context), (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_allreduce(group, send, send_length, receive, receive_length, reduce,     \
				    type, context, flags)                                          \
	dat_extension_op(                                                                          \
		(DAT_IB_COLLECTIVE_HANDLE)(group), (DAT_IB_OP)DAT_IB_COLLECTIVE_ALLREDUCE_OP,      \
		(DAT_PVOID)(send), (DAT_COUNT)(send_length), (DAT_PVOID)(receive),                 \
		(DAT_COUNT)(receive_length), (DAT_IB_COLLECTIVE_REDUCE_DATA_OP)(reduce),           \
		(DAT_IB_COLLECTIVE_DATA_TYPE)(type), (context), (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_reduce_scatter(group, send, send_length, receive, receive_lengths,       \
					 reduce, type, context, flags)                             \
	dat_extension_op(                                                                          \
		(DAT_IB_COLLECTIVE_HANDLE)(group), (DAT_IB_OP)DAT_IB_COLLECTIVE_REDUCE_SCATTER_OP, \
		(DAT_PVOID)(send), (DAT_COUNT)(send_length), (DAT_PVOID)(receive),                 \
		(DAT_COUNT *)(receive_lengths), (DAT_IB_COLLECTIVE_REDUCE_DATA_OP)(reduce),        \
		(DAT_IB_COLLECTIVE_DATA_TYPE)(type), (context), (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_scan(group, send, send_length, receive, receive_length, reduce, type,    \
			       context, flags)                                                     \
	dat_extension_op((DAT_IB_COLLECTIVE_HANDLE)(group), (DAT_IB_OP)DAT_IB_COLLECTIVE_SCAN_OP,  \
			 (DAT_PVOID)(send), (DAT_COUNT)(send_length), (DAT_PVOID)(receive),        \
			 (DAT_COUNT)(receive_length), (DAT_IB_COLLECTIVE_REDUCE_DATA_OP)(reduce),  \
			 (DAT_IB_COLLECTIVE_DATA_TYPE)(type), (context),                           \
			 (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_broadcast(group, buffer, length, root, context, flags)                   \
	dat_extension_op((DAT_IB_COLLECTIVE_HANDLE)(group),                                        \
			 (DAT_IB_OP)DAT_IB_COLLECTIVE_BROADCAST_OP, (DAT_PVOID)(buffer),           \
			 (DAT_COUNT)(length), (DAT_IB_COLLECTIVE_RANK)(root), (context),           \
			 (DAT_COMPLETION_FLAGS)(flags))
#define dat_ib_collective_barrier(group, context, flags)                                           \
	dat_extension_op((DAT_IB_COLLECTIVE_HANDLE)(group),                                        \
			 (DAT_IB_OP)DAT_IB_COLLECTIVE_BARRIER_OP, (context),                       \
			 (DAT_COMPLETION_FLAGS)(flags))

#ifdef __cplusplus
}
#endif

#endif
