/* SPDX-License-Identifier: BSD-2-Clause */
/* Fake protection domains and memory regions, with the checks a device makes. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "fake_impl.h"

/* Local and remote keys of a region differ, so that mixing them up is noticed. */
#define REMOTE_KEY 0x40000000u

struct tp_mr {
	struct tp_mr *next;
	struct tp_pd *pd;
	uint32_t key;
	unsigned priv;
	DAT_VADDR address;
	DAT_VLEN size;
};

int tp_pd_create(struct tp_dev *dev, struct tp_pd **out)
{
	struct tp_pd *pd = NULL;
	int err = fake_enter(CALL_PD_CREATE);

	if (err)
		return err;
	if (dev->alive[FAKE_PD] < dev->attr.max_pd)
		pd = calloc(1, sizeof(*pd));
	if (pd) {
		pd->dev = dev;
		alive_add(dev, FAKE_PD, 1);
		*out = pd;
	}
	fake_unlock();
	return pd ? 0 : -ENOMEM;
}

void tp_pd_destroy(struct tp_pd *pd)
{
	fake_lock();
	fake_count(CALL_PD_DESTROY);
	fake_demand(pd->users == 0, "a protection domain outlives its regions and queue pairs");
	alive_add(pd->dev, FAKE_PD, -1);
	fake_unlock();
	free(pd);
}

static void mr_range(struct tp_mr *mr, void *address, size_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	mr->address = (uintptr_t)address;
	mr->size = size;
	if (fake.quirks & FAKE_MR_ROUNDS) {
		mr->size += mr->address % page;
		mr->address -= mr->address % page;
		mr->size = (mr->size + page - 1) / page * page;
	}
}

int tp_mr_reg(struct tp_pd *pd, void *address, size_t size, DAT_MEM_PRIV_FLAGS priv, bool relaxed, struct tp_mr **out,
	      struct tp_mr_info *info)
{
	struct tp_mr *mr = NULL;
	int err = fake_enter(CALL_MR_REG);

	if (err)
		return err;
	err = size == 0 || size > pd->dev->attr.max_mr_size ? -EINVAL : -ENOMEM;
	if (err == -ENOMEM && pd->dev->alive[FAKE_MR] < pd->dev->attr.max_mr)
		mr = calloc(1, sizeof(*mr));
	if (mr) {
		mr->pd = pd;
		mr->key = fake.next_key++;
		mr->priv = priv;
		mr_range(mr, address, size);
		mr->next = fake.mrs;
		fake.mrs = mr;
		pd->users++;
		alive_add(pd->dev, FAKE_MR, 1);
		fake.seen.priv = priv;
		fake.seen.relaxed = relaxed;
		*info = (struct tp_mr_info){
			.lmr_context = mr->key,
			.rmr_context = mr->key | REMOTE_KEY,
			.address = mr->address,
			.size = mr->size,
		};
		*out = mr;
	}
	fake_unlock();
	return mr ? 0 : err;
}

int tp_mr_dereg(struct tp_mr *mr)
{
	struct tp_mr **link = &fake.mrs;
	int err = fake_enter(CALL_MR_DEREG);

	if (err)
		return err;
	while (*link != mr)
		link = &(*link)->next;
	*link = mr->next;
	mr->pd->users--;
	alive_add(mr->pd->dev, FAKE_MR, -1);
	fake_unlock();
	free(mr);
	return 0;
}

bool mem_may(const struct tp_pd *pd, uint32_t key, bool remote, DAT_VADDR address, DAT_VLEN length, unsigned priv)
{
	const struct tp_mr *mr = fake.mrs;

	if (remote != !!(key & REMOTE_KEY))
		return false;
	while (mr && mr->key != (key & ~REMOTE_KEY))
		mr = mr->next;
	return mr && mr->pd == pd && (priv == 0 || (mr->priv & priv)) && length <= mr->size && address >= mr->address &&
	       address - mr->address <= mr->size - length;
}
