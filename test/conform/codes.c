/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What each call may return, by the standard and by our choices where it leaves one: the list that
 * the sheet is checked against. Success is not listed: each call has a row for it. Neither is
 * DAT_INTERNAL_ERROR, which any call may return when an invariant of the provider is broken.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform.h"
#include "sheet.h"

/* A code of DAT 2.0 alone, at the end of a list. */
#define EDITION_CODE(code) OF_EDITION(0, code)

/* These have a row of the sheet. */
static const struct {
	const char *call;
	DAT_RETURN codes[20]; /* to the first 0 */
} provoked[] = {
	{ "dat_cno_create", { BAD_HANDLE(IA), BAD_ARG(3) } },
	{ "dat_cno_free", { BAD_HANDLE(CNO), BAD_STATE(CNO_IN_USE) } },
	{ "dat_cno_modify_agent", { BAD_HANDLE(CNO) } },
	{ "dat_cno_query", { BAD_HANDLE(CNO), BAD_ARG(3) } },
	{ "dat_cno_wait",
	  { BAD_HANDLE(CNO), BAD_ARG(3), DAT_QUEUE_EMPTY, PLAIN(INTERRUPTED_CALL) } },
	{ "dat_cr_accept",
	  { BAD_HANDLE(CR), BAD_HANDLE(EP), BAD_ARG(3), BAD_ARG(4), BAD_STATE(EP_ACTCONNPENDING),
	    BAD_STATE(EP_CONNECTED), BAD_STATE(EP_DISCONNECTED), BAD_STATE(EP_DISCPENDING),
	    BAD_STATE(EP_NOTREADY), BAD_STATE(EP_PASSCONNPENDING), BAD_STATE(EP_RESERVED),
	    BAD_STATE(EP_TENTCONNPENDING) } },
	{ "dat_cr_handoff", { BAD_HANDLE(CR), BAD_ARG(2), NO_RESOURCE(MEMORY) } },
	{ "dat_cr_query", { BAD_HANDLE(CR), BAD_ARG(3) } },
#if DAT_EDITION == 2
	{ "dat_cr_reject", { BAD_HANDLE(CR), BAD_ARG(2), BAD_ARG(3) } },
#else
	{ "dat_cr_reject", { BAD_HANDLE(CR) } },
#endif
	{ "dat_ep_connect",
	  { BAD_HANDLE(EP), BAD_HANDLE(EVD_CONN), BAD_ARG(2), BAD_ARG(3), BAD_ARG(4), BAD_ARG(5),
	    BAD_ARG(6), BAD_ARG(8), BAD_STATE(EP_ACTCONNPENDING), BAD_STATE(EP_CONNECTED),
	    BAD_STATE(EP_DISCONNECTED), BAD_STATE(EP_DISCPENDING), BAD_STATE(EP_NOTREADY),
	    BAD_STATE(EP_PASSCONNPENDING), BAD_STATE(EP_RESERVED),
	    DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED),
	    DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED), NOT_SUPPORTED } },
	{ "dat_ep_create",
	  { BAD_HANDLE(EVD_CONN), BAD_HANDLE(EVD_RECV), BAD_HANDLE(EVD_REQUEST), BAD_HANDLE(IA),
	    BAD_HANDLE(PZ), BAD_ARG(6), BAD_ARG(7) } },
	{ "dat_ep_create_with_srq",
	  { BAD_HANDLE(EVD_CONN), BAD_HANDLE(EVD_RECV), BAD_HANDLE(EVD_REQUEST), BAD_HANDLE(IA),
	    BAD_HANDLE(PZ), BAD_HANDLE(SRQ), BAD_ARG(2), BAD_ARG(7), BAD_ARG(8) } },
	{ "dat_ep_disconnect",
	  { BAD_HANDLE(EP), BAD_STATE(EP_PASSCONNPENDING), BAD_STATE(EP_RESERVED),
	    BAD_STATE(EP_TENTCONNPENDING), BAD_STATE(EP_UNCONNECTED) } },
	{ "dat_ep_dup_connect",
	  { BAD_HANDLE(EP), BAD_HANDLE(EVD_CONN), BAD_ARG(3), BAD_ARG(4), BAD_ARG(5),
	    BAD_STATE(EP_ACTCONNPENDING), BAD_STATE(EP_CONNECTED), BAD_STATE(EP_DISCONNECTED),
	    BAD_STATE(EP_DISCPENDING), BAD_STATE(EP_NOTREADY), BAD_STATE(EP_PASSCONNPENDING),
	    BAD_STATE(EP_RESERVED), BAD_STATE(EP_TENTCONNPENDING), BAD_STATE(EP_UNCONNECTED),
	    NOT_SUPPORTED } },
	{ "dat_ep_free",
	  { BAD_HANDLE(EP), BAD_STATE(EP_PASSCONNPENDING), BAD_STATE(EP_RESERVED),
	    BAD_STATE(EP_TENTCONNPENDING) } },
	{ "dat_ep_get_status", { BAD_HANDLE(EP) } },
	{ "dat_ep_modify",
	  { BAD_HANDLE(EP), BAD_ARG(2), BAD_ARG(3), BAD_STATE(EP_ACTCONNPENDING),
	    BAD_STATE(EP_CONNECTED), BAD_STATE(EP_DISCONNECTED), BAD_STATE(EP_DISCPENDING),
	    BAD_STATE(EP_PASSCONNPENDING), BAD_STATE(EP_RESERVED), BAD_STATE(EP_TENTCONNPENDING),
	    BAD_STATE(EP_UNCONNECTED), EDITION_CODE(NOT_SUPPORTED) } },
	{ "dat_ep_post_rdma_read",
	  { BAD_HANDLE(EP), BAD_ARG(2), BAD_ARG(3), BAD_ARG(5), BAD_STATE(EP_ACTCONNPENDING),
	    BAD_STATE(EP_DISCPENDING), BAD_STATE(EP_NOTREADY), BAD_STATE(EP_PASSCONNPENDING),
	    BAD_STATE(EP_RESERVED), BAD_STATE(EP_TENTCONNPENDING), BAD_STATE(EP_UNCONNECTED),
	    NO_RESOURCE(MEMORY) } },
	{ "dat_ep_post_rdma_write",
	  { BAD_HANDLE(EP), BAD_ARG(2), BAD_ARG(3), BAD_ARG(5), BAD_STATE(EP_ACTCONNPENDING),
	    BAD_STATE(EP_DISCPENDING), BAD_STATE(EP_PASSCONNPENDING), BAD_STATE(EP_RESERVED),
	    BAD_STATE(EP_TENTCONNPENDING), BAD_STATE(EP_UNCONNECTED), NO_RESOURCE(MEMORY) } },
	{ "dat_ep_post_recv",
	  { BAD_HANDLE(EP), BAD_ARG(1), BAD_ARG(2), BAD_ARG(3), BAD_STATE(EP_NOTREADY),
	    NO_RESOURCE(MEMORY) } },
	{ "dat_ep_post_send",
	  { BAD_HANDLE(EP), BAD_ARG(2), BAD_ARG(3), BAD_STATE(EP_ACTCONNPENDING),
	    BAD_STATE(EP_DISCPENDING), BAD_STATE(EP_PASSCONNPENDING), BAD_STATE(EP_RESERVED),
	    BAD_STATE(EP_TENTCONNPENDING), BAD_STATE(EP_UNCONNECTED), NO_RESOURCE(MEMORY) } },
	{ "dat_ep_query", { BAD_HANDLE(EP), BAD_ARG(3) } },
	{ "dat_ep_recv_query", { BAD_HANDLE(EP) } },
	{ "dat_ep_reset",
	  { BAD_HANDLE(EP), BAD_STATE(EP_ACTCONNPENDING), BAD_STATE(EP_CONNECTED),
	    BAD_STATE(EP_DISCPENDING), BAD_STATE(EP_PASSCONNPENDING), BAD_STATE(EP_RESERVED),
	    BAD_STATE(EP_TENTCONNPENDING) } },
	{ "dat_ep_set_watermark", { BAD_HANDLE(EP), BAD_ARG(2), BAD_ARG(3), NOT_SUPPORTED } },
	{ "dat_evd_clear_unwaitable", { BAD_HANDLE1 } },
	{ "dat_evd_create",
	  { BAD_HANDLE(CNO), BAD_HANDLE(IA), BAD_ARG(2), BAD_ARG(4), BAD_ARG(5),
	    NO_RESOURCE(TEVD) } },
	{ "dat_evd_dequeue", { BAD_HANDLE1, BAD_ARG(2), BAD_STATE(EVD_WAITER), DAT_QUEUE_EMPTY } },
	{ "dat_evd_disable", { BAD_HANDLE1 } },
	{ "dat_evd_enable", { BAD_HANDLE1 } },
	{ "dat_evd_free", { BAD_HANDLE1, BAD_STATE(EVD_IN_USE) } },
	{ "dat_evd_modify_cno", { BAD_HANDLE(CNO), BAD_HANDLE1 } },
	{ "dat_evd_post_se", { BAD_HANDLE1, BAD_ARG(1), BAD_ARG(2), PLAIN(QUEUE_FULL) } },
	{ "dat_evd_query", { BAD_HANDLE1, BAD_ARG(3) } },
	{ "dat_evd_resize", { BAD_HANDLE1, BAD_ARG(2), BAD_STATE(EVD_WAITER), BAD_STATE_PLAIN } },
	{ "dat_evd_set_unwaitable", { BAD_HANDLE1 } },
	{ "dat_evd_wait",
	  { BAD_HANDLE1, BAD_ARG(3), BAD_ARG(4), BAD_ARG(5), BAD_STATE(EVD_CONFIG_NOTIFY),
	    BAD_STATE(EVD_CONFIG_SOLICITED), BAD_STATE(EVD_UNWAITABLE), BAD_STATE(EVD_WAITER),
	    PLAIN(ABORT), PLAIN(INTERRUPTED_CALL), PLAIN(TIMEOUT_EXPIRED) } },
#if DAT_EDITION == 2
	{ "dat_extension_op",
	  { BAD_HANDLE1, BAD_HANDLE(EP), BAD_HANDLE(IA), BAD_ARG(2), BAD_ARG(3), BAD_ARG(4),
	    BAD_ARG(5), BAD_ARG(6), BAD_STATE(EP_ACTCONNPENDING), BAD_STATE(EP_DISCPENDING),
	    BAD_STATE(EP_NOTREADY), BAD_STATE(EP_PASSCONNPENDING), BAD_STATE(EP_RESERVED),
	    BAD_STATE(EP_TENTCONNPENDING), BAD_STATE(EP_UNCONNECTED), NO_RESOURCE(MEMORY),
	    PLAIN(MODEL_NOT_SUPPORTED), PLAIN(NOT_IMPLEMENTED),
	    DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED) } },
#endif
	{ "dat_get_consumer_context", { BAD_HANDLE1, BAD_ARG(2) } },
	{ "dat_get_handle_type", { BAD_HANDLE1, BAD_ARG(2) } },
	{ "dat_ia_close", { BAD_HANDLE(IA), BAD_ARG(2), BAD_STATE(IA_IN_USE) } },
	{ "dat_ia_openv",
	  { BAD_HANDLE(EVD_ASYNC), BAD_ARG(1), BAD_ARG(2), BAD_ARG(3), BAD_ARG(4),
	    DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_MAJOR_NOT_FOUND),
	    DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_MINOR_NOT_FOUND),
	    DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED),
	    DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_THREAD_SAFETY_NOT_FOUND), NO_RESOURCE(TEVD) } },
	{ "dat_ia_query", { BAD_HANDLE(IA), BAD_ARG(3), BAD_ARG(4), BAD_ARG(5), BAD_ARG(6) } },
	{ "dat_lmr_create",
	  { BAD_HANDLE(IA), BAD_HANDLE(LMR), BAD_HANDLE(PZ), BAD_ARG(2), BAD_ARG(3), BAD_ARG(4),
	    BAD_ARG_OF(7, 8), BAD_STATE_PLAIN, NO_PRIVILEGE(WRITE), EDITION_CODE(BAD_ARG(7)) } },
	{ "dat_lmr_free", { BAD_HANDLE(LMR), BAD_STATE(LMR_IN_USE) } },
	{ "dat_lmr_query", { BAD_HANDLE(LMR), BAD_ARG(3) } },
	{ "dat_lmr_sync_rdma_read", { BAD_HANDLE(IA), BAD_ARG(2) } },
	{ "dat_lmr_sync_rdma_write", { BAD_HANDLE(IA), BAD_ARG(2) } },
	{ "dat_psp_create",
	  { BAD_HANDLE(EVD_CR), BAD_HANDLE(IA), BAD_ARG(2), BAD_ARG(4), BAD_ARG(5),
	    PLAIN(CONN_QUAL_IN_USE) } },
	{ "dat_psp_create_any",
	  { BAD_HANDLE(EVD_CR), BAD_HANDLE(IA), BAD_ARG(2), BAD_ARG(4), BAD_ARG(5) } },
	{ "dat_psp_free", { BAD_HANDLE(PSP) } },
	{ "dat_psp_query", { BAD_HANDLE(PSP), BAD_ARG(3) } },
	{ "dat_pz_create", { BAD_HANDLE(IA), BAD_ARG(2) } },
	{ "dat_pz_free", { BAD_HANDLE(PZ), BAD_STATE(PZ_IN_USE) } },
	{ "dat_pz_query", { BAD_HANDLE(PZ), BAD_ARG(3) } },
	{ "dat_registry_add_provider",
	  { BAD_ARG(1), BAD_ARG(2), PLAIN(PROVIDER_ALREADY_REGISTERED) } },
	{ "dat_registry_list_providers", { BAD_ARG(1), BAD_ARG(2), BAD_ARG(3) } },
	{ "dat_registry_remove_provider",
	  { BAD_ARG(1), BAD_ARG(2), DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED),
	    PLAIN(PROVIDER_IN_USE) } },
	{ "dat_rmr_bind",
	  { BAD_HANDLE(EP), BAD_HANDLE(EVD_REQUEST), BAD_HANDLE(RMR), BAD_ARG_OF(2, 3),
	    BAD_ARG_OF(6, 8), BAD_ARG_OF(7, 9), BAD_STATE(EP_ACTCONNPENDING),
	    BAD_STATE(EP_DISCPENDING), BAD_STATE(EP_PASSCONNPENDING), BAD_STATE(EP_RESERVED),
	    BAD_STATE(EP_UNCONNECTED), NO_PRIVILEGE(RDMA_READ), NO_PRIVILEGE(RDMA_WRITE),
	    NO_RESOURCE(MEMORY), PLAIN(PROTECTION_VIOLATION), EDITION_CODE(BAD_HANDLE(LMR)),
	    EDITION_CODE(BAD_ARG(5)) } },
	{ "dat_rmr_create", { BAD_HANDLE(PZ), BAD_ARG(2) } },
	{ "dat_rmr_free", { BAD_HANDLE(RMR) } },
	{ "dat_rmr_query", { BAD_HANDLE(RMR), BAD_ARG(2), BAD_ARG(3) } },
	{ "dat_rsp_create",
	  { BAD_HANDLE(EP), BAD_HANDLE(EVD_CR), BAD_HANDLE(IA), BAD_ARG(2), BAD_ARG(5),
	    BAD_STATE(EP_ACTCONNPENDING), BAD_STATE(EP_CONNECTED), BAD_STATE(EP_DISCONNECTED),
	    BAD_STATE(EP_DISCPENDING), BAD_STATE(EP_PASSCONNPENDING), BAD_STATE(EP_RESERVED),
	    BAD_STATE(EP_TENTCONNPENDING), PLAIN(CONN_QUAL_IN_USE) } },
	{ "dat_rsp_free", { BAD_HANDLE(RSP) } },
	{ "dat_rsp_query", { BAD_HANDLE(RSP), BAD_ARG(3) } },
	{ "dat_set_consumer_context", { BAD_HANDLE1 } },
	{ "dat_srq_create", { BAD_HANDLE(IA), BAD_HANDLE(PZ), BAD_ARG(3), BAD_ARG(4) } },
	{ "dat_srq_free", { BAD_HANDLE(SRQ), BAD_STATE(SRQ_IN_USE) } },
	{ "dat_srq_post_recv", { BAD_HANDLE(SRQ), BAD_ARG(2), BAD_ARG(3), NO_RESOURCE(MEMORY) } },
	{ "dat_srq_query", { BAD_HANDLE(SRQ), BAD_ARG(3) } },
	{ "dat_srq_resize", { BAD_HANDLE(SRQ), BAD_ARG(2), BAD_STATE_PLAIN } },
	{ "dat_srq_set_lw", { BAD_HANDLE(SRQ), BAD_ARG(2) } },
	{ "dat_strerror", { BAD_ARG(1), BAD_ARG(2) } },
#if DAT_EDITION == 2
	/* Those of the version of this project. */
	{ "dat_cno_fd_create", { BAD_HANDLE(IA), BAD_ARG(2), BAD_ARG(3) } },
	{ "dat_cno_trigger", { BAD_HANDLE(CNO), BAD_ARG(2), DAT_QUEUE_EMPTY } },
	{ "dat_csp_create",
	  { BAD_HANDLE(EVD_CR), BAD_HANDLE(IA), BAD_ARG(2), BAD_ARG(3), BAD_ARG(5),
	    DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED),
	    PLAIN(COMM_NOT_SUPPORTED), PLAIN(PORT_IN_USE) } },
	{ "dat_csp_free", { BAD_HANDLE(CSP) } },
	{ "dat_csp_query", { BAD_HANDLE(CSP), BAD_ARG(3) } },
	{ "dat_ep_common_connect",
	  { BAD_HANDLE(EP), BAD_HANDLE(EVD_CONN), BAD_ARG(2), BAD_ARG(3), BAD_ARG(4), BAD_ARG(5),
	    BAD_STATE(EP_ACTCONNPENDING), BAD_STATE(EP_CONNECTED), BAD_STATE(EP_DISCONNECTED),
	    BAD_STATE(EP_DISCPENDING), BAD_STATE(EP_NOTREADY), BAD_STATE(EP_PASSCONNPENDING),
	    BAD_STATE(EP_RESERVED), DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED),
	    DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED) } },
	{ "dat_ep_post_rdma_read_to_rmr",
	  { BAD_HANDLE(EP), BAD_ARG(2), BAD_ARG(4), NOT_SUPPORTED } },
	{ "dat_ep_post_send_with_invalidate",
	  { BAD_HANDLE(EP), BAD_ARG(2), BAD_ARG(3), BAD_ARG(6), BAD_STATE(EP_UNCONNECTED) } },
	{ "dat_registry_providers_related",
	  { BAD_ARG(1), BAD_ARG(2), BAD_ARG(3),
	    DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED) } },
	{ "dat_rmr_create_for_ep", { BAD_HANDLE(PZ), BAD_ARG(2) } },
#endif
};

/* No device can do what these are for: no row has them succeed. */
static const char *const never_successful[] = { "dat_ep_post_rdma_read_to_rmr" };

/* These have none, for a reason. */
static const struct {
	const char *call;
	DAT_RETURN code;
	const char *why;
} not_provoked[] = {
#define NO_MEMORY "host memory must run out: test/unit/test_no_memory has that"
	{ "dat_registry_add_provider", NO_RESOURCE(MEMORY), NO_MEMORY },
	{ "dat_ia_openv", NO_RESOURCE(MEMORY), NO_MEMORY },
	{ "dat_evd_create", NO_RESOURCE(MEMORY), NO_MEMORY },
	{ "dat_cno_create", NO_RESOURCE(MEMORY), NO_MEMORY },
	{ "dat_ep_create", NO_RESOURCE(MEMORY), NO_MEMORY },
	{ "dat_ep_create_with_srq", NO_RESOURCE(MEMORY), NO_MEMORY },
	{ "dat_ep_modify", NO_RESOURCE(MEMORY), NO_MEMORY },
	{ "dat_psp_create", NO_RESOURCE(MEMORY), NO_MEMORY },
	{ "dat_psp_create_any", NO_RESOURCE(MEMORY), NO_MEMORY },
	{ "dat_rsp_create", NO_RESOURCE(MEMORY), NO_MEMORY },
	{ "dat_pz_create", NO_RESOURCE(MEMORY), NO_MEMORY },
	{ "dat_lmr_create", NO_RESOURCE(MEMORY), NO_MEMORY },
	{ "dat_rmr_create", NO_RESOURCE(MEMORY), NO_MEMORY },
	{ "dat_srq_create", NO_RESOURCE(MEMORY), NO_MEMORY },

#define NO_MORE "the device must run out of them: test/unit/test_limits has that"
	{ "dat_ep_create", NO_RESOURCE(TEP), NO_MORE },
	{ "dat_ep_create", NO_RESOURCE(TEVD), NO_MORE },
	{ "dat_ep_create_with_srq", NO_RESOURCE(TEP), NO_MORE },
	{ "dat_ep_create_with_srq", NO_RESOURCE(TEVD), NO_MORE },
	{ "dat_ep_modify", NO_RESOURCE(TEP), NO_MORE },
	{ "dat_ep_modify", NO_RESOURCE(TEVD), NO_MORE },
	{ "dat_ep_connect", NO_RESOURCE(TEP), NO_MORE },
	{ "dat_ep_dup_connect", NO_RESOURCE(TEP), NO_MORE },
	{ "dat_ep_reset", NO_RESOURCE(TEP), NO_MORE },
	{ "dat_cr_accept", NO_RESOURCE(TEP), NO_MORE },
	{ "dat_psp_create", NO_RESOURCE(DEVICE), NO_MORE },
	{ "dat_psp_create_any", NO_RESOURCE(DEVICE), NO_MORE },
	{ "dat_rsp_create", NO_RESOURCE(DEVICE), NO_MORE },
	{ "dat_pz_create", NO_RESOURCE(PROTECTION_DOMAIN), NO_MORE },
	{ "dat_rmr_create", NO_RESOURCE(MEMORY_REGION), NO_MORE },
	{ "dat_rmr_bind", NO_RESOURCE(MEMORY_REGION), NO_MORE },
	{ "dat_srq_create", NO_RESOURCE(SRQ), NO_MORE },
	{ "dat_srq_resize", NO_RESOURCE(SRQ), NO_MORE },
	{ "dat_srq_resize", NO_RESOURCE(TEVD), NO_MORE },
	{ "dat_evd_resize", NO_RESOURCE(TEVD), NO_MORE },
	{ "dat_lmr_create", NO_RESOURCE(MEMORY_REGION),
	  "it takes a limit of locked memory for the process: test/func/memory has that" },
	{ "dat_psp_create_any", PLAIN(CONN_QUAL_UNAVAILABLE),
	  "all ports of the host must be taken: test/unit/test_psp has that" },

#define NOT_HERE "the device has it: test/unit has devices that lack it"
	{ "dat_lmr_create", NOT_SUPPORTED,
	  "all types of memory are supported; of DAT 2.0's addresses: NEEDS_ZERO_BASED" },
	{ "dat_rmr_create", NOT_SUPPORTED, NOT_HERE },
	{ "dat_rmr_create_for_ep", NOT_SUPPORTED, NOT_HERE },
	{ "dat_rmr_bind", NOT_SUPPORTED, NOT_HERE },
	{ "dat_srq_create", NOT_SUPPORTED, NOT_HERE },
	{ "dat_ep_create_with_srq", NOT_SUPPORTED, NOT_HERE },
	{ "dat_srq_set_lw", NOT_SUPPORTED, NOT_HERE },
	{ "dat_psp_create", NOT_SUPPORTED, "both kinds of service points are supported" },
	{ "dat_psp_create_any", NOT_SUPPORTED, "both kinds of service points are supported" },
	{ "dat_ep_recv_query", NOT_SUPPORTED, "a count that is not known is DAT_VALUE_UNKNOWN" },

#define PASSING                                                                                    \
	"the state ends when the peer's provider answers, which nothing holds up: "                \
	"test/unit/test_ep has it"
	{ "dat_ep_connect", BAD_STATE(EP_COMPLPENDING), PASSING },
	{ "dat_ep_dup_connect", BAD_STATE(EP_COMPLPENDING), PASSING },
	{ "dat_ep_reset", BAD_STATE(EP_COMPLPENDING), PASSING },
	{ "dat_ep_modify", BAD_STATE(EP_COMPLPENDING), PASSING },
	{ "dat_cr_accept", BAD_STATE(EP_COMPLPENDING), PASSING },
	{ "dat_rsp_create", BAD_STATE(EP_COMPLPENDING), PASSING },
	{ "dat_ep_connect", BAD_STATE(EP_TENTCONNPENDING),
	  "without a connect EVD that is refused" },
	{ "dat_rmr_bind", BAD_STATE(EP_TENTCONNPENDING), "without a request EVD that is refused" },
	{ "dat_lmr_create", BAD_STATE(LMR_FREE),
	  "another thread must free the source during the call: test/unit/test_lmr has that" },

#define FAILED_SRQ "the device must fail: test/unit/test_srq has that"
	{ "dat_srq_post_recv", BAD_STATE(SRQ_ERROR), FAILED_SRQ },
	{ "dat_ep_create_with_srq", BAD_STATE(SRQ_ERROR), FAILED_SRQ },
	{ "dat_registry_add_provider", BAD_STATE_PLAIN,
	  "only while the process exits: test/unit/test_exit has that" },
	{ "dat_ia_openv", NO_RESOURCE(DEVICE),
	  "dat.conf must name a device that is missing: test/unit/test_ia has that" },
	{ "dat_ia_openv", NO_RESOURCE(ERROR_HANDLER),
	  "no thread must be available: test/unit/test_limits has that" },
	{ "dat_ia_openv", DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_RO_COOKIE),
	  "libfabric must promise no order of writes: test/ofi/test_memory has that" },
	{ "dat_ia_openv", PLAIN(MODEL_NOT_SUPPORTED),
	  "libfabric must want what DAT has not: test/ofi/test_memory has that" },
	{ "dat_ep_connect", DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE),
	  "routes are looked up after the call, which then ends with an event" },

#define SAME_ADDRESS "the address is the one that the other endpoint is connected to"
	{ "dat_ep_dup_connect", DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED),
	  SAME_ADDRESS },
	{ "dat_ep_dup_connect", DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED),
	  SAME_ADDRESS },
	{ "dat_ep_dup_connect", DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE),
	  SAME_ADDRESS },

#define COMPLETION "faults of memory are reported by completions: dto_async_return_guaranteed"
	{ "dat_ep_post_send", DAT_ERROR(DAT_PROTECTION_VIOLATION, DAT_PROTECTION_READ),
	  COMPLETION },
	{ "dat_ep_post_send", NO_PRIVILEGE(READ), COMPLETION },
	{ "dat_ep_post_recv", DAT_ERROR(DAT_PROTECTION_VIOLATION, DAT_PROTECTION_WRITE),
	  COMPLETION },
	{ "dat_ep_post_recv", NO_PRIVILEGE(WRITE), COMPLETION },
	{ "dat_ep_post_rdma_read", NO_PRIVILEGE(WRITE), COMPLETION },
	{ "dat_ep_post_rdma_write", NO_PRIVILEGE(READ), COMPLETION },

#define LOCAL_DECIDES "the local segments decide how much is moved, as with OFED's provider"
	{ "dat_ep_post_rdma_read", PLAIN(LENGTH_ERROR), LOCAL_DECIDES },
	{ "dat_ep_post_rdma_write", PLAIN(LENGTH_ERROR), LOCAL_DECIDES },
	{ "dat_registry_list_providers", PLAIN(INTERNAL_ERROR),
	  "without a file there are no names, which is no error" },
	{ "dat_ia_close", NO_RESOURCE(MEMORY), "it needs nothing that it does not have" },
	{ "dat_cno_wait", BAD_STATE(CNO_DEAD), "a CNO with a waiter is not freed" },
	{ "dat_cno_create", BAD_ARG(2), "data without a function is no agent" },
	{ "dat_lmr_sync_rdma_read", BAD_ARG(3), "any number of segments is right" },
	{ "dat_lmr_sync_rdma_write", BAD_ARG(3), "any number of segments is right" },
};

/* ---- the checks ---- */

static bool has_row(const char *call, DAT_RETURN code)
{
	for (const struct row *row = rows_first(); row; row = row->next)
		if (row->kind == ROW_RETURN && !strcmp(row->call, call) && row->want == code)
			return true;
	return false;
}

static bool is_listed(const char *call, DAT_RETURN code)
{
	for (size_t i = 0; i < COUNT(provoked); i++)
		for (size_t k = 0; !strcmp(provoked[i].call, call) && provoked[i].codes[k]; k++)
			if (provoked[i].codes[k] == code)
				return true;
	return false;
}

static bool may_succeed(const char *call)
{
	for (size_t i = 0; i < COUNT(never_successful); i++)
		if (!strcmp(call, never_successful[i]))
			return false;
	return true;
}

START_TEST(every_code_has_a_row_or_a_reason)
{
	for (size_t i = 0; i < COUNT(provoked); i++) {
		ck_assert_msg(has_row(provoked[i].call, DAT_SUCCESS) ==
				      may_succeed(provoked[i].call),
			      "a row for success, or none: %s", provoked[i].call);
		for (size_t k = 0; provoked[i].codes[k]; k++)
			ck_assert_msg(has_row(provoked[i].call, provoked[i].codes[k]),
				      "no row: %s, %s", provoked[i].call,
				      status_text(provoked[i].codes[k]));
	}
	for (size_t i = 0; i < COUNT(not_provoked); i++)
		ck_assert_msg(!has_row(not_provoked[i].call, not_provoked[i].code) &&
				      !is_listed(not_provoked[i].call, not_provoked[i].code),
			      "a row and a reason for none: %s, %s", not_provoked[i].call,
			      status_text(not_provoked[i].code));
}
END_TEST

START_TEST(every_row_expects_a_code_of_the_list)
{
	for (const struct row *row = rows_first(); row; row = row->next)
		if (row->kind == ROW_RETURN && row->want != DAT_SUCCESS)
			ck_assert_msg(is_listed(row->call, row->want), "%s:%d: %s, %s", row->file,
				      row->line, row->call, status_text(row->want));
}
END_TEST

/* The calls are those that libdat exports, and headers declare. */
START_TEST(every_call_of_the_library_is_in_the_list)
{
	const char *top = getenv("top_srcdir");
	char path[512], line[128], name[128];
	size_t n = 0;
	FILE *map;

	ck_assert_int_eq(COUNT(provoked), OF_EDITION(72, 83));
	snprintf(path, sizeof(path), "%s/dat/libdat" OF_EDITION("", "2") ".map", top ? top : ".");
	map = fopen(path, "r");
	if (!map)
		return; /* the sources are not here */
	while (fgets(line, sizeof(line), map))
		if (sscanf(line, "\tdat_%100[a-z_];", name) == 1)
			ck_assert_str_eq(provoked[n++].call + strlen("dat_"), name);
	fclose(map);
	ck_assert_uint_eq(n, COUNT(provoked));
}
END_TEST

void add_code_cases(TCase *cases)
{
	tcase_add_test(cases, every_code_has_a_row_or_a_reason);
	tcase_add_test(cases, every_row_expects_a_code_of_the_list);
	tcase_add_test(cases, every_call_of_the_library_is_in_the_list);
}
