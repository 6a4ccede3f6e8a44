#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# libdat.so.1 and libdat2.so.2 export exactly the symbols that programs and providers were linked
# with, and what is ours in a version of its own. Prints TAP.

# shellcheck source=tap.sh
. "${top_srcdir:-.}/test/unit/tap.sh"
folder=${LIBDAT_FOLDER:-${top_builddir:-.}/dat/.libs}
if ! command -v readelf >/dev/null; then
	echo "1..0 # SKIP no readelf (Debian: binutils)"
	exit 0
fi

# of both editions
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
# Declared by the headers of DAT 2.0, but exported by no other library.
declared='
cno_fd_create cno_trigger
csp_create csp_free csp_query
ep_common_connect ep_post_rdma_read_to_rmr ep_post_send_with_invalidate
registry_providers_related
rmr_create_for_ep'

# exports NODE PREFIX NAME...
exports() {
	node=$1 prefix=$2
	shift 2
	for name; do
		echo "FUNC $prefix$name@@$node"
	done
}

# shellcheck disable=SC2086 # lists
want_libdat() {
	exports DAT_1.2 dat_ $standard
	exports DAT_1.2 dats_ get_ia_handle
	exports DATX_1.0 datx_ ia_open_line ia_open_ro_aware registry_lose registry_meet
}
# shellcheck disable=SC2086 # lists
want_libdat2() {
	exports DAT_2.0 dat_ $standard extension_op
	exports DAT_2.0 dats_ get_ia_handle
	exports DATX_2.0 dat_ $declared
	exports DATX_2.0 datx_ ia_open_line ia_open_ro_aware registry_lose registry_meet
}

# The dynamic symbols that are defined, without those that stand for the version nodes.
have() {
	readelf --dyn-syms --wide "$lib" |
		awk '$7 != "UND" && $5 == "GLOBAL" && $7 != "ABS" { print $4, $8 }'
}
sorted() { LC_ALL=C sort | tr '\n' ' '; }
dynamic() { readelf --dynamic "$lib"; }

# check_library SONAME WANT NODE COUNT
check_library() {
	lib=$folder/$1
	same "$1 has $4 standard calls" "$("$2" | grep -c "@@$3\$")" "$4"
	same "$1 has exactly those, in their versions" "$(have | sorted)" "$("$2" | sorted)"
	same "programs find it as $1" \
		"$(dynamic | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')" "$1"
	same "$1 is never unloaded" "$(dynamic | grep -cw NODELETE)" 1
}

echo 1..8
check_library libdat.so.1 want_libdat DAT_1.2 73
check_library libdat2.so.2 want_libdat2 DAT_2.0 74
