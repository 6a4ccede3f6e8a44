/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a provider library is looked for. */
#ifndef DAT_LOAD_H
#define DAT_LOAD_H

/*
 * Loads a provider library. A bare name is looked for where the dynamic linker looks, and then
 * beside libdat, in which the address @libdat is: a provider that was installed with it is found
 * whatever the prefix. Returns NULL if it can't be loaded; dlerror() tells why it failed where it
 * was found, or that it was not.
 */
void *provider_load(const char *name, const void *libdat);

#endif
