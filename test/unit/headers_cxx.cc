/* SPDX-License-Identifier: BSD-2-Clause */
// The headers in a C++ consumer: calls have C linkage, and all types can be declared and compared.
#include <dat/udat.h>

#include <dat/dat.h>
#include <dat/dat_error.h>
#include <dat/dat_platform_specific.h>
#include <dat/dat_redirection.h>
#include <dat/dat_registry.h>
#include <dat/dat_vendor_specific.h>
#include <dat/udat_config.h>
#include <dat/udat_redirection.h>
#include <dat/udat_vendor_specific.h>

#include <cstdio>
#include <cstring>

// These replace functions of the library. The program does not compile if the headers declare them
// with another linkage.
extern "C" DAT_RETURN dat_ia_openv(const DAT_NAME_PTR, DAT_COUNT qlen, DAT_EVD_HANDLE *,
				   DAT_IA_HANDLE *ia, DAT_UINT32 major, DAT_UINT32 minor,
				   DAT_BOOLEAN thread_safety)
{
	*ia = reinterpret_cast<DAT_IA_HANDLE>(static_cast<uintptr_t>(qlen));
	return major == 1 && minor == 2 && thread_safety == DAT_FALSE ? DAT_SUCCESS : DAT_ABORT;
}

extern "C" DAT_RETURN dat_evd_post_se(DAT_EVD_HANDLE, const DAT_EVENT *event)
{
	return event->event_number == DAT_SOFTWARE_EVENT ? DAT_SUCCESS : DAT_ABORT;
}

extern "C" void dat_provider_init(const DAT_PROVIDER_INFO *, const char *)
{
}

namespace
{

DAT_RETURN cxx_pz_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE *pz)
{
	*pz = ia;
	return DAT_SUCCESS;
}

bool open_has_c_linkage()
{
	char name[] = "ia";
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	return dat_ia_open(name, 2, &evd, &ia) == DAT_SUCCESS && ia == DAT_EVD_OUT_OF_SCOPE;
}

bool every_structure_can_be_declared()
{
	DAT_PROVIDER_ATTR provider;
	DAT_IA_ATTR ia;
	DAT_EVENT event;

	std::memset(&provider, 0, sizeof(provider));
	std::memset(&ia, 0, sizeof(ia));
	std::memset(&event, 0, sizeof(event));
	provider.evd_stream_merging_supported[5][5] = DAT_TRUE;
	event.event_number = DAT_SOFTWARE_EVENT;
	return (sizeof(void *) != 8 || (sizeof(provider) == 504 && sizeof(ia) == 688)) &&
	       dat_evd_post_se(DAT_HANDLE_NULL, &event) == DAT_SUCCESS;
}

bool the_null_agent_is_a_value()
{
	DAT_OS_WAIT_PROXY_AGENT agent = DAT_OS_WAIT_PROXY_AGENT_NULL;

	return !agent.instance_data && !agent.proxy_agent_func;
}

bool return_codes_have_type_and_subtype()
{
	DAT_RETURN ret = DAT_CLASS_ERROR | DAT_INVALID_STATE | DAT_INVALID_STATE_PZ_IN_USE;

	return DAT_GET_TYPE(ret) == DAT_INVALID_STATE &&
	       DAT_GET_SUBTYPE(ret) == DAT_INVALID_STATE_PZ_IN_USE && !DAT_IS_WARNING(ret);
}

bool a_macro_dispatches()
{
	DAT_PROVIDER table = {};
	DAT_PROVIDER *object = &table;
	DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;

	table.pz_create_func = cxx_pz_create;
	return DAT_PZ_CREATE(&object, &pz) == DAT_SUCCESS && pz == &object;
}

const struct {
	const char *what;
	bool (*holds)();
} cases[] = {
	{ "calls have C linkage", open_has_c_linkage },
	{ "structures need no initialiser", every_structure_can_be_declared },
	{ "DAT_OS_WAIT_PROXY_AGENT_NULL is a value", the_null_agent_is_a_value },
	{ "return codes have a type and a subtype", return_codes_have_type_and_subtype },
	{ "a macro dispatches through its handle", a_macro_dispatches },
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
