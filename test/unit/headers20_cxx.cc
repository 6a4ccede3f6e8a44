/* SPDX-License-Identifier: BSD-2-Clause */
// The headers of DAT 2.0 in a C++ consumer: calls have C linkage, all types can be declared and
// compared, and the macros of the extensions take what C++ takes.
#include <dat2/dat_ib_extensions.h>

#include <dat2/dat.h>
#include <dat2/dat_error.h>
#include <dat2/dat_platform_specific.h>
#include <dat2/dat_redirection.h>
#include <dat2/dat_registry.h>
#include <dat2/dat_vendor_specific.h>
#include <dat2/udat.h>
#include <dat2/udat_config.h>
#include <dat2/udat_redirection.h>
#include <dat2/udat_vendor_specific.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

// These replace functions of the library. The program does not compile if the headers declare them
// with another linkage.
extern "C" DAT_RETURN dat_ia_openv(const DAT_NAME_PTR, DAT_COUNT qlen, DAT_EVD_HANDLE *,
				   DAT_IA_HANDLE *ia, DAT_UINT32 major, DAT_UINT32 minor,
				   DAT_BOOLEAN thread_safety)
{
	*ia = reinterpret_cast<DAT_IA_HANDLE>(static_cast<uintptr_t>(qlen));
	return major == 2 && minor == 0 && thread_safety == DAT_FALSE ? DAT_SUCCESS : DAT_ABORT;
}

extern "C" DAT_RETURN dat_evd_post_se(DAT_EVD_HANDLE, const DAT_EVENT *event)
{
	return event->event_number == DAT_SOFTWARE_EVENT ? DAT_SUCCESS : DAT_ABORT;
}

extern "C" DAT_RETURN dat_strerror(DAT_RETURN, const char **major, const char **minor)
{
	*major = "unknown";
	return minor ? DAT_ABORT : DAT_INVALID_PARAMETER;
}

extern "C" DAT_RETURN dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP op, ...)
{
	std::va_list args;
	bool right;

	va_start(args, op);
	if (op == DAT_IB_OPEN_QUERY_OP) {
		right = !handle && !std::strcmp(va_arg(args, char *), "ib0");
		*va_arg(args, DAT_HANDLE *) = &args;
		right = right && va_arg(args, DAT_IA_ATTR_MASK) == DAT_IA_FIELD_ALL &&
			va_arg(args, DAT_IA_ATTR *) && va_arg(args, DAT_PROVIDER_ATTR_MASK) == 0 &&
			!va_arg(args, DAT_PROVIDER_ATTR *);
	} else {
		right = op == DAT_IB_CMP_AND_SWAP_OP && va_arg(args, DAT_UINT64) == 5 &&
			va_arg(args, DAT_UINT64) == 6 &&
			va_arg(args, DAT_LMR_TRIPLET *)->segment_length == 8 &&
			va_arg(args, DAT_DTO_COOKIE).as_64 == 7 &&
			va_arg(args, DAT_RMR_TRIPLET *)->virtual_address == 64;
	}
	va_end(args);
	return right ? DAT_SUCCESS : DAT_ABORT;
}

extern "C" void dat_provider_init(const DAT_PROVIDER_INFO *, const char *)
{
}

namespace
{

DAT_RETURN cxx_cr_reject(DAT_CR_HANDLE, DAT_COUNT size, const DAT_PVOID data)
{
	return size == 4 && !std::strcmp(static_cast<const char *>(data), "why") ? DAT_SUCCESS
										 : DAT_ABORT;
}

bool open_has_c_linkage20()
{
	char name[] = "ia";
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	return dat_ia_open(name, 2, &evd, &ia) == DAT_SUCCESS && ia == DAT_EVD_OUT_OF_SCOPE;
}

bool every_structure_of_2_0_can_be_declared()
{
	DAT_IB_EXTENSION_EVENT_DATA data;
	DAT_PROVIDER_ATTR provider;
	DAT_CNO_PARAM cno;
	DAT_IA_ATTR ia;
	DAT_EVENT event;

	std::memset(&data, 0, sizeof(data));
	std::memset(&provider, 0, sizeof(provider));
	std::memset(&cno, 0, sizeof(cno));
	std::memset(&ia, 0, sizeof(ia));
	std::memset(&event, 0, sizeof(event));
	data.coll.context.as_64 = 1;
	provider.evd_stream_merging_supported[5][5] = DAT_TRUE;
	cno.proxy.agent = DAT_OS_WAIT_PROXY_AGENT_NULL;
	event.event_number = DAT_SOFTWARE_EVENT;
	return (sizeof(void *) != 8 ||
		(sizeof(provider) == 520 && sizeof(ia) == 688 && sizeof(data) == 64)) &&
	       dat_evd_post_se(DAT_HANDLE_NULL, &event) == DAT_SUCCESS;
}

bool return_codes_of_2_0_have_type_and_subtype()
{
	DAT_RETURN ret = DAT_CLASS_ERROR | DAT_INVALID_STATE | DAT_INVALID_STATE_PZ_IN_USE;

	return DAT_GET_TYPE(ret) == DAT_INVALID_STATE &&
	       DAT_GET_SUBTYPE(ret) == DAT_INVALID_STATE_PZ_IN_USE && !DAT_IS_WARNING(ret);
}

bool a_macro_of_2_0_dispatches()
{
	DAT_PROVIDER table = {};
	DAT_PROVIDER *object = &table;
	char why[] = "why";

	table.cr_reject_func = cxx_cr_reject;
	return DAT_CR_REJECT(&object, 4, why) == DAT_SUCCESS;
}

bool extensions_take_literals()
{
	DAT_LMR_TRIPLET iov = { 0, 8, 0 };
	DAT_RMR_TRIPLET remote = { 64, 8, 0 };
	DAT_DTO_COOKIE cookie;
	DAT_HANDLE query;
	DAT_IA_ATTR ia;

	cookie.as_64 = 7;
	return dat_ib_open_query("ib0", &query, DAT_IA_FIELD_ALL, &ia, 0, NULL) == DAT_SUCCESS &&
	       dat_ib_post_cmp_and_swap(query, 5, 6, &iov, cookie, &remote, 0) == DAT_SUCCESS;
}

bool names_of_extensions_are_inline()
{
	const char *name = "";

	return dat_strerror_extension(DAT_IB_ERR, &name) == DAT_SUCCESS &&
	       !std::strcmp(name, "DAT_IB_ERR") &&
	       dat_strerror_ext_status(DAT_IB_OP_ERR, &name) == DAT_SUCCESS &&
	       !std::strcmp(name, "DAT_IB_OP_ERR");
}

const struct {
	const char *what;
	bool (*holds)();
} cases[] = {
	{ "calls have C linkage", open_has_c_linkage20 },
	{ "structures need no initialiser", every_structure_of_2_0_can_be_declared },
	{ "return codes have a type and a subtype", return_codes_of_2_0_have_type_and_subtype },
	{ "a macro dispatches through its handle", a_macro_of_2_0_dispatches },
	{ "macros of extensions take literals", extensions_take_literals },
	{ "names of extensions are inline functions", names_of_extensions_are_inline },
};

} // namespace

int main()
{
	int number = 0, failures = 0;

	std::printf("1..%d\n", static_cast<int>(sizeof(cases) / sizeof(cases[0])));
	for (const auto &c : cases) {
		bool holds = c.holds();

		std::printf("%sok %d - %s\n", holds ? "" : "not ", ++number, c.what);
		failures += !holds;
	}
	return failures != 0;
}
