#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# libdat.so.1 exports exactly the symbols that programs and providers were linked with. Prints TAP.

# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
lib=${LIBDAT:-${top_builddir:-.}/dat/.libs/libdat.so.1}
if ! command -v readelf >/dev/null; then
	echo "1..0 # SKIP no readelf (Debian: binutils)"
	exit 0
fi

standard='
cno_create cno_free cno_modify_agent cno_query cno_wait
get_consumer_context get_handle_type set_consumer_context
cr_accept cr_handoff cr_query cr_reject
ep_connect ep_create ep_create_with_srq ep_disconnect ep_dup_connect ep_free ep_get_status ep_modify
ep_post_rdma_read ep_post_rdma_write ep_post_recv ep_post_send ep_query ep_recv_query ep_reset
ep_set_watermark
strerror
evd_clear_unwaitable evd_create evd_dequeue evd_disable evd_enable evd_free evd_modify_cno
evd_post_se evd_query
evd_resize evd_set_unwaitable evd_wait
ia_close ia_openv ia_query
lmr_create lmr_free lmr_query lmr_sync_rdma_read lmr_sync_rdma_write
psp_create psp_create_any psp_free psp_query
pz_create pz_free pz_query
registry_add_provider registry_list_providers registry_remove_provider
rmr_bind rmr_create rmr_free rmr_query
rsp_create rsp_free rsp_query
srq_create srq_free srq_post_recv srq_query srq_resize srq_set_lw'

want() {
	for name in $standard; do
		echo "FUNC dat_$name@@DAT_1.2"
	done
	echo "FUNC dats_get_ia_handle@@DAT_1.2"
	echo "FUNC datx_ia_open_line@@DATX_1.0"
	echo "FUNC datx_ia_open_ro_aware@@DATX_1.0"
}

# The dynamic symbols that are defined, without those that stand for the version nodes.
have() {
	readelf --dyn-syms --wide "$lib" |
		awk '$7 != "UND" && $5 == "GLOBAL" && $7 != "ABS" { print $4, $8 }'
}
sorted() { LC_ALL=C sort | tr '\n' ' '; }
dynamic() { readelf --dynamic "$lib"; }

echo 1..4
same "seventy-three standard calls" "$(want | grep -c 'DAT_1\.2$')" 73
same "exactly those, in their versions" "$(have | sorted)" "$(want | sorted)"
same "programs find it as libdat.so.1" \
	"$(dynamic | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')" libdat.so.1
same "it is never unloaded" "$(dynamic | grep -cw NODELETE)" 1
