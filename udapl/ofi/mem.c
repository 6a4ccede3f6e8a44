/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions.
 *
 * libfabric's tcp looks at nothing of a local buffer. So the check of local buffers is made here:
 * whether a segment is in a live region of the protection domain, with the privilege that it takes.
 * What peers may reach is checked by libfabric, by key and range, among the regions of the domain
 * that their endpoint is in: so each protection domain has one of its own (zone.c).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "host/maps.h"
#include "host/memlock.h"
#include "host/readable.h"
#include "ofi.h"

#define GENERATION_BITS 8
#define KEY_ATTEMPTS	64

/* Linux's numbers, which musl's headers do not have */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

_Static_assert(MADV_POPULATE_WRITE == MADV_POPULATE_READ + 1, "range_check adds 1 for writing");

/* For madvise, which refuses it: nothing is populated, and the map of the process is looked at. */
#define MADV_NOTHING (-2)

/* ---- keys ---- */

/*
 * Draws up to @most random numbers, so that a peer can't guess them, as wide as the provider's keys
 * may be. Returns how many.
 */
static unsigned keys_draw(const struct fi_info *info, uint32_t *keys, unsigned most)
{
	const size_t size = info->domain_attr->mr_key_size;
	ssize_t got;

	do
		got = getrandom(keys, most * sizeof(*keys), 0);
	while (got < 0 && errno == EINTR);
	if (got < 0) {
		keys[0] = (uint32_t)tp_now();
		got = sizeof(*keys);
	}
	most = (unsigned)((size_t)got / sizeof(*keys));
	for (unsigned i = 0; size && size < sizeof(*keys) && i < most; i++)
		keys[i] &= (1u << 8 * size) - 1;
	return most;
}

uint32_t mem_key_choose(const struct fi_info *info)
{
	uint32_t key = 0;

	while (!key)
		(void)keys_draw(info, &key, 1);
	return key;
}

/* Returns a key; or 0, which is none, if the stock is used up or has that number. */
static inline uint32_t stock_take_locked(struct tp_dev *dev)
{
	uint32_t key;

	assert_locked(&dev->mrs_lock);
	key = dev->keys[dev->next_key];
	dev->next_key += key != 0;
	return key;
}

static void stock_renew(struct tp_dev *dev)
{
	uint32_t keys[KEY_STOCK];
	unsigned count = keys_draw(dev->info, keys, KEY_STOCK);

	spin_lock(&dev->mrs_lock);
	memcpy(dev->keys, keys, count * sizeof(*keys));
	dev->keys[count] = 0;
	dev->last_key = count;
	dev->next_key = 0;
	spin_unlock(&dev->mrs_lock);
}

static COLD uint32_t stock_take(struct tp_dev *dev)
{
	uint32_t key;
	bool last;

	for (;;) {
		spin_lock(&dev->mrs_lock);
		key = stock_take_locked(dev);
		last = dev->next_key == dev->last_key;
		dev->next_key += !key && !last;
		spin_unlock(&dev->mrs_lock);
		if (key)
			return key;
		if (last)
			stock_renew(dev);
	}
}

/* ---- the table of regions ---- */

static struct tp_mr *mr_at(struct tp_dev *dev, uint32_t context)
{
	uint32_t index = context >> GENERATION_BITS;
	struct tp_mr *chunk = atomic_load_explicit(&dev->mrs[index / MR_CHUNK % MR_CHUNKS],
						   memory_order_acquire);

	return chunk ? &chunk[index % MR_CHUNK] : NULL;
}

/*
 * Returns a slot that was never used, as mr_give leaves one; or NULL, if there is no memory or no
 * slot is left.
 */
static NOINLINE struct tp_mr *mr_new_locked(struct tp_dev *dev)
{
	uint32_t index = dev->mr_count + 1; /* no context is 0 */
	_Atomic(struct tp_mr *) *chunk = &dev->mrs[index / MR_CHUNK];
	struct tp_mr *slots, *mr;

	assert_locked(&dev->mrs_lock);
	if (index / MR_CHUNK >= MR_CHUNKS)
		return NULL;
	if (!atomic_load(chunk)) {
		slots = calloc(MR_CHUNK, sizeof(*slots));
		if (!slots)
			return NULL;
		atomic_store_explicit(chunk, slots, memory_order_release);
	}
	dev->mr_count = index;
	mr = mr_at(dev, index << GENERATION_BITS);
	mr->name = index << GENERATION_BITS;
	return mr;
}

/* Returns a free slot or NULL, and in *key a key for its region, or 0 if the stock is used up. */
static inline struct tp_mr *mr_take(struct tp_dev *dev, uint32_t *key)
{
	struct tp_mr *mr;

	spin_lock(&dev->mrs_lock);
	mr = dev->free_mr;
	if (likely(mr))
		dev->free_mr = mr->next_free;
	else
		mr = mr_new_locked(dev);
	*key = stock_take_locked(dev);
	spin_unlock(&dev->mrs_lock);
	return mr;
}

/* Returns the address behind the region; it may be 0. */
static uint64_t mr_end(const struct tp_mr *mr)
{
	return (uintptr_t)mr->range.iov_base + mr->range.iov_len;
}

/* ---- views ---- */

static void view_clear_locked(struct tp_dev *dev, struct region_view *view)
{
	assert_locked(&dev->mrs_lock);
	hot_write(view->end, 0);
	hot_write(view->size, 0);
	if (!view->mr)
		return;
	*view->back = view->next;
	if (view->next)
		view->next->back = view->back;
	view->mr = NULL;
}

void view_clear(struct tp_dev *dev, struct region_view *view)
{
	spin_lock(&dev->mrs_lock);
	view_clear_locked(dev, view);
	spin_unlock(&dev->mrs_lock);
}

static void view_show_locked(struct tp_dev *dev, struct region_view *view, struct tp_mr *mr,
			     uint32_t context, unsigned segments)
{
	assert_locked(&dev->mrs_lock);
	view->mr = mr;
	view->next = mr->views;
	view->back = &mr->views;
	if (view->next)
		view->next->back = &view->next;
	mr->views = view;
	view->desc = fi_mr_desc(mr->fi);
	for (unsigned i = 0; i < segments; i++)
		view->descs[i] = view->desc;
	hot_write(view->context, context);
	hot_write(view->first, (uintptr_t)mr->range.iov_base);
	hot_write(view->end, mr_end(mr));
	hot_write(view->size, mr->range.iov_len);
}

/* ---- the end of a region ---- */

/*
 * Frees the slot of a region, whose context is 0 by now. The context of its next life differs in
 * the generation, so that a stale one is found out.
 */
static inline void mr_give(struct tp_dev *dev, struct tp_mr *mr)
{
	const uint32_t generation = (1u << GENERATION_BITS) - 1, name = mr->name;

	spin_lock(&dev->mrs_lock);
	while (unlikely(mr->views))
		view_clear_locked(dev, mr->views);
	mr->name = (name & ~generation) | ((name + 1) & generation);
	mr->next_free = dev->free_mr;
	dev->free_mr = mr;
	spin_unlock(&dev->mrs_lock);
}

/* ---- the check of local buffers ---- */

/*
 * May a transfer of @pd use the region? As with devices, local read needs no privilege, and either
 * write privilege grants local write.
 */
static bool mr_allows(const struct tp_mr *mr, uint32_t context, const struct tp_pd *pd, bool write)
{
	const unsigned writes = DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG;

	return mr && mr->context == context && mr->pd == pd && (!write || mr->priv & writes);
}

#if DAT_EDITION == 2
static uint64_t mr_bias(const struct tp_mr *mr)
{
	return mr->bias;
}

static inline void mr_set_bias(struct tp_mr *mr, uint64_t bias)
{
	mr->bias = bias;
}
#else
static uint64_t mr_bias(const struct tp_mr *mr)
{
	(void)mr;
	return 0;
}

static inline void mr_set_bias(struct tp_mr *mr, uint64_t bias)
{
	(void)mr, (void)bias;
}
#endif

/* Is the range not empty, and within the region? The addresses are those in memory. */
static bool mr_covers(const struct tp_mr *mr, uint64_t first, uint64_t last)
{
	return (uintptr_t)mr->range.iov_base <= first && first <= last && last <= mr_end(mr) - 1;
}

bool mem_map(struct tp_dev *dev, const struct tp_pd *pd, bool write, const struct tp_sge *sge,
	     unsigned nsge, struct iovec *iov, void **desc)
{
	for (unsigned i = 0; i < nsge; i++) {
		const struct tp_mr *mr = mr_at(dev, sge[i].lmr_context);
		uint64_t first;

		if (!mr_allows(mr, sge[i].lmr_context, pd, write))
			return false;
		first = sge[i].address + mr_bias(mr);
		if (!mr_covers(mr, first, first + sge[i].length - 1))
			return false;
		iov[i] = (struct iovec){ (void *)(uintptr_t)first, sge[i].length };
		desc[i] = fi_mr_desc(mr->fi);
	}
	return true;
}

void view_set(const struct transfer_queue *queue, struct region_view *view, bool write,
	      const struct tp_sge *sge)
{
	const struct tp_pd *pd = queue->qp->pd;
	struct tp_dev *dev = queue->qp->dev;
	struct tp_mr *mr = mr_at(dev, sge->lmr_context);

	spin_lock(&dev->mrs_lock);
	view_clear_locked(dev, view);
	/* fast posts give the addresses to libfabric as they are */
	if (queue_is_fast(queue) && mr && mr_end(mr) - 1 < VIEW_LIMIT && !mr_bias(mr) &&
	    mr_allows(mr, sge->lmr_context, pd, write))
		view_show_locked(dev, view, mr, sge->lmr_context, queue->max_sge);
	spin_unlock(&dev->mrs_lock);
}

/* ---- registration ---- */

/* Returns libfabric's rights for privileges. With some providers a remote one takes the local. */
static uint64_t rights_of(unsigned priv)
{
	uint64_t access = FI_SEND | FI_WRITE;

	if (priv & (DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG))
		access |= FI_RECV | FI_READ;
	if (priv & DAT_MEM_PRIV_REMOTE_READ_FLAG)
		access |= FI_REMOTE_READ;
	if (priv & DAT_MEM_PRIV_REMOTE_WRITE_FLAG)
		access |= FI_REMOTE_WRITE;
	return access;
}

static COLD int range_refused(const struct tp_dev *dev, void *address, size_t size,
			      DAT_MEM_PRIV_FLAGS priv)
{
	enum mapping mapping;

	if (errno != EINVAL)
		return errno == ENOMEM ? -EFAULT : -errno;
	/*
	 * before Linux 5.14, memory of a kind that can't be populated, or without the right; or
	 * the user wants nothing populated
	 */
	mapping = mapping_of(&(struct span){ address, size });
	if (mapping == MAPPING_HOLES)
		return -EFAULT;
	if (mapping == MAPPING_READONLY && priv & DAT_MEM_PRIV_WRITE_FLAG)
		return -EACCES;
	if (dev->populate == MADV_NOTHING)
		return 0;
	/* memory of a GPU may be mapped, and a load from it fail */
	return memory_is_readable(address, size) ? 0 : -EFAULT;
}

/*
 * Checks that a region is of memory that the process has. libfabric's tcp registers whatever it is
 * told, and a wrong address would crash the process in the middle of a transfer. So the kernel is
 * asked to map the pages, as it does where a device pins them.
 */
static inline int range_check(const struct tp_dev *dev, void *address, size_t size,
			      DAT_MEM_PRIV_FLAGS priv)
{
	const bool writable = priv & DAT_MEM_PRIV_WRITE_FLAG;
	uintptr_t from = (uintptr_t)address, start = from & dev->page_mask;

	if (likely(!madvise((void *)start, from + size - start, dev->populate + writable)))
		return 0;
	return range_refused(dev, address, size, priv);
}

/*
 * Waits for the end of a registration, where the domain reports that through a queue. What is left
 * there of one that nobody waited for is dropped.
 */
static int mr_await(struct tp_dev *dev, const struct fid_mr *mr)
{
	struct fi_eq_err_entry failure;
	struct fi_eq_entry entry;
	uint32_t type;
	ssize_t got;

	assert_locked(&dev->mr_eq_lock);
	do {
		got = fi_eq_sread(dev->mr_eq, &type, &entry, sizeof(entry), -1, 0);
		if (got == sizeof(entry) && entry.fid == &mr->fid)
			return 0;
		if (got == -FI_EAVAIL) {
			failure = (struct fi_eq_err_entry){ 0 };
			got = fi_eq_readerr(dev->mr_eq, &failure, 0);
			if (got > 0 && failure.fid == &mr->fid)
				return failure.err ? -failure.err : -FI_EIO;
		}
	} while (got > 0 || got == -FI_EAGAIN || got == -FI_EINTR);
	return (int)got;
}

static NOINLINE int mr_register_and_await(struct tp_dev *dev, struct fid_domain *domain,
					  const struct fi_mr_attr *attr, struct fid_mr **fi)
{
	int ret;

	mutex_lock(&dev->mr_eq_lock);
	ret = fi_mr_regattr(domain, attr, 0, fi);
	if (!ret) {
		ret = mr_await(dev, *fi);
		if (ret)
			fi_close(&(*fi)->fid);
	}
	mutex_unlock(&dev->mr_eq_lock);
	return ret;
}

static inline int mr_register_once(struct tp_dev *dev, struct fid_domain *domain,
				   const struct fi_mr_attr *attr, struct fid_mr **fi)
{
	if (unlikely(dev->mr_eq))
		return mr_register_and_await(dev, domain, attr, fi);
	return fi_mr_regattr(domain, attr, 0, fi);
}

/* Is the key in use, or not to be had for another reason of the provider (fi_mr(3))? */
static bool is_key_refused(int ret)
{
	return ret == -FI_ENOKEY || ret == -FI_EKEYREJECTED;
}

/* Tries other keys, if @ret says that the first one was refused. */
static COLD int mr_register_again(struct tp_dev *dev, const struct tp_mr *mr,
				  struct fi_mr_attr *attr, int ret, struct fid_mr **fi)
{
	for (unsigned i = 1; i < KEY_ATTEMPTS && is_key_refused(ret); i++) {
		attr->requested_key = dev->provider_keys ? 0 : stock_take(dev);
		ret = mr_register_once(dev, mr->pd->domain, attr, fi);
	}
	if (ret && dev->pins_pages)
		memlock_name_cause(&dev->attr, "fi_mr_regattr", mr->range.iov_base,
				   mr->range.iov_len, (int)-ret);
	return ret;
}

/*
 * Registers the range of @mr in its protection domain. Peers address it by its memory, less @bias.
 * Returns what libfabric does.
 */
static inline int mr_register(struct tp_dev *dev, const struct tp_mr *mr, uint64_t bias,
			      uint64_t rights, uint32_t key, struct fid_mr **fi)
{
	struct fi_mr_attr attr = {
		.mr_iov = &mr->range,
		.iov_count = 1,
		.access = rights,
		.offset = bias, /* which libfabric adds to the addresses that peers use */
		.requested_key = key,
	};
	int ret = mr_register_once(dev, mr->pd->domain, &attr, fi);

	return likely(!ret) ? 0 : mr_register_again(dev, mr, &attr, ret, fi);
}

/*
 * Is it a key of 32 bits, or none? With some providers a region has none that no peer may access.
 */
static bool key_fits(uint64_t key)
{
	return key <= UINT32_MAX || key == FI_KEY_NOTAVAIL;
}

static COLD int key_check(const struct tp_dev *dev, struct fid_mr *fi)
{
	if (key_fits(fi_mr_key(fi)))
		return 0;
	log_error("%s: no key of 32 bits is left for a memory region", dev->attr.device);
	fi_close(&fi->fid);
	return -ENOSPC;
}

static ALWAYS_INLINE int mr_make(struct tp_pd *pd, void *address, size_t size, uint64_t bias,
				 DAT_MEM_PRIV_FLAGS priv, unsigned flags, struct tp_mr **out,
				 struct tp_mr_info *info)
{
	struct tp_dev *dev = pd->dev;
	struct tp_mr *mr;
	uint32_t key;
	int err;

	/* without flags it is a part of a region that needs no order, and was looked at */
	if (unlikely(dev->attr.caps & TP_CAP_RELAXED_ONLY) && flags == TP_REG_WINDOWS)
		return -EOPNOTSUPP;
	err = flags ? range_check(dev, address, size, priv) : 0;
	if (unlikely(err))
		return err;
	mr = mr_take(dev, &key);
	if (unlikely(!mr))
		return -ENOMEM;
	if (unlikely(!key) && !dev->provider_keys)
		key = stock_take(dev);
	mr->pd = pd;
	mr->priv = priv;
	mr->range = (struct iovec){ address, size };
	mr_set_bias(mr, bias);
	err = mr_register(dev, mr, bias, dev->rights[priv], key, &mr->fi);
	if (unlikely(err)) {
		err = ofi_errno(err);
		goto give_mr;
	}
	info->rmr_context = (DAT_RMR_CONTEXT)fi_mr_key(mr->fi);
	if (unlikely(info->rmr_context != fi_mr_key(mr->fi))) {
		err = key_check(dev, mr->fi);
		if (err)
			goto give_mr;
	}
	info->lmr_context = mr->name;
	info->address = (uintptr_t)mr->range.iov_base - bias;
	info->size = mr->range.iov_len;
	info->bindable = false;
	atomic_store_explicit(&mr->context, info->lmr_context, memory_order_release);
	*out = mr;
	return 0;
give_mr:
	mr_give(dev, mr);
	return err;
}

int tp_mr_reg(struct tp_pd *pd, void *address, size_t size, DAT_MEM_PRIV_FLAGS priv, unsigned flags,
	      struct tp_mr **mr, struct tp_mr_info *info)
{
	return mr_make(pd, address, size, 0, priv, flags, mr, info);
}

#if DAT_EDITION == 2
int tp_mr_reg_at(struct tp_pd *pd, void *address, size_t size, DAT_VADDR first,
		 DAT_MEM_PRIV_FLAGS priv, unsigned flags, struct tp_mr **mr,
		 struct tp_mr_info *info)
{
	return mr_make(pd, address, size, (uintptr_t)address - first, priv, flags, mr, info);
}
#endif

/* -EBUSY: libfabric has transfers of it, and it stays as it was. */
int tp_mr_dereg(struct tp_mr *mr)
{
	int ret;

	/* local use ends first; mrs_lock, which mr_give takes, orders this with view_set */
	atomic_store_explicit(&mr->context, 0, memory_order_relaxed);
	ret = fi_close(&mr->fi->fid);
	if (unlikely(ret)) {
		atomic_store_explicit(&mr->context, mr->name, memory_order_release);
		return ofi_errno(ret);
	}
	mr_give(mr->pd->dev, mr);
	return 0;
}

/* ---- opening and closing ---- */

/* Opens an event queue for registrations, for a provider that does not register without one. */
static int mr_eq_open(struct tp_dev *dev)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	int ret = fi_eq_open(dev->fabric, &attr, &dev->mr_eq, NULL);

	if (ret)
		return ret;
	ret = fi_domain_bind(dev->domain, &dev->mr_eq->fid, FI_REG_MR);
	if (ret) {
		fi_close(&dev->mr_eq->fid);
		dev->mr_eq = NULL;
	}
	return ret;
}

/*
 * Does libfabric keep regions after they were closed, in a cache in which all have all rights? Then
 * peers could access what was never granted to them. There the same pages are one region: @one,
 * which is registered.
 */
static bool has_mr_cache(struct tp_dev *dev, const struct tp_mr *mr, uint64_t access,
			 const struct fid_mr *one)
{
	struct fid_mr *other;

	if (!dev->provider_keys || mr_register(dev, mr, 0, access, 0, &other))
		return false;
	if (other == one)
		log_error("open %s: libfabric's cache of memory regions ignores their privileges; "
			  "set FI_MR_CACHE_MONITOR=disabled",
			  dev->attr.device);
	fi_close(&other->fid);
	return other == one;
}

int mem_open(struct tp_dev *dev)
{
	static char sample[64];
	struct tp_pd pd = { dev, dev->domain };
	const struct tp_mr mr = { .pd = &pd, .range = { sample, sizeof(sample) } };
	struct fid_mr *fi;
	bool wide, cached;
	const uint64_t access = rights_of(DAT_MEM_PRIV_REMOTE_READ_FLAG);
	const uint32_t key = dev->provider_keys ? 0 : mem_key_choose(dev->info);
	int ret = mr_register(dev, &mr, 0, access, key, &fi);

	for (unsigned priv = 0; priv < ARRAY_SIZE(dev->rights); priv++)
		dev->rights[priv] = rights_of(priv);
	dev->page_mask = ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	dev->populate = env_populates() ? MADV_POPULATE_READ : MADV_NOTHING;
	if (dev->populate == MADV_NOTHING && !dev->pins_pages)
		dev->attr.caps |= TP_CAP_ON_DEMAND;
	if (ret == -FI_ENOEQ) {
		ret = mr_eq_open(dev);
		if (!ret)
			ret = mr_register(dev, &mr, 0, access, key, &fi);
	}
	if (ret) {
		log_error("open %s: registering memory with libfabric's %s: %s", dev->attr.device,
			  dev->info->fabric_attr->prov_name, libfabric.strerror(-ret));
		return ofi_errno(ret);
	}
	wide = !key_fits(fi_mr_key(fi));
	cached = has_mr_cache(dev, &mr, access, fi);
	fi_close(&fi->fid);
	if (cached)
		return -EOPNOTSUPP;
	if (!wide)
		return 0;
	log_error("open %s: libfabric's %s has keys of more than 32 bits, which a DAT context "
		  "can't hold",
		  dev->attr.device, dev->info->fabric_attr->prov_name);
	return -EOPNOTSUPP;
}

void mem_close(struct tp_dev *dev)
{
	if (dev->mr_eq)
		fi_close(&dev->mr_eq->fid);
	for (unsigned i = 0; i < MR_CHUNKS; i++)
		free(dev->mrs[i]);
}
