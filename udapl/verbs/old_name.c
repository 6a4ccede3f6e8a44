/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All code of libdaplofa.so.2, libdaploscm.so.2 and libdaploucm.so.2, by which dat.conf files of
 * old call providers of DAT 2.0. Each is a name of libdaplcma2.so.2, which has what the registry
 * looks for in it. They are libraries because ldconfig passes over links with such names.
 */
#include <edition.h>

/* This refers to that library; linkers may leave out those that nothing refers to. */
static const DAT_PROVIDER_INIT_FUNC old_name_of __attribute__((used)) = dat_provider_init;
