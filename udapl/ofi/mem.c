/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains and memory regions.
 *
 * libfabric's tcp looks at nothing of a local buffer, and every region of a domain is open to every
 * endpoint of it. So the check of local buffers is made here: whether a segment is in a live region
 * of the protection domain, with the privilege that it takes. What peers may reach is checked by
 * libfabric, by key and range, but without regard to protection domains.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "maps.h"
#include "memlock.h"
#include "ofi.h"

#define GENERATION_BITS 8
#define KEY_ATTEMPTS	64

/* ---- protection domains ---- */

int tp_pd_create(struct tp_dev *dev, struct tp_pd **out)
{
	struct tp_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return -ENOMEM;
	pd->dev = dev;
	*out = pd;
	return 0;
}

void tp_pd_destroy(struct tp_pd *pd)
{
	free(pd);
}

/* ---- the table of regions ---- */

static struct tp_mr *mr_at(struct tp_dev *dev, uint32_t context)
{
	uint32_t index = context >> GENERATION_BITS;
	struct tp_mr *chunk = atomic_load_explicit(&dev->mrs[index / MR_CHUNK % MR_CHUNKS],
						   memory_order_acquire);

	return chunk ? &chunk[index % MR_CHUNK] : NULL;
}

/* A slot that was never used; its context has no generation yet. NULL: no memory, or none left. */
static struct tp_mr *mr_new_locked(struct tp_dev *dev, uint32_t *context)
{
	uint32_t index = dev->mr_count + 1; /* no context is 0 */
	_Atomic(struct tp_mr *) *chunk = &dev->mrs[index / MR_CHUNK];
	struct tp_mr *slots;

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
	*context = index << GENERATION_BITS;
	return mr_at(dev, *context);
}

/* @context is the one of its next life. */
static struct tp_mr *mr_take(struct tp_dev *dev, uint32_t *context)
{
	struct tp_mr *mr;

	spin_lock(&dev->mrs_lock);
	mr = dev->free_mr;
	if (mr) {
		dev->free_mr = mr->next_free;
		*context = (uint32_t)mr->last; /* mr_give left it there */
	} else {
		mr = mr_new_locked(dev, context);
	}
	spin_unlock(&dev->mrs_lock);
	return mr;
}

/* ---- views ---- */

static void view_clear_locked(struct tp_dev *dev, struct region_view *view)
{
	assert_locked(&dev->mrs_lock);
	view_write(view->end, 0);
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
			     uint32_t context)
{
	assert_locked(&dev->mrs_lock);
	view->mr = mr;
	view->next = mr->views;
	view->back = &mr->views;
	if (view->next)
		view->next->back = &view->next;
	mr->views = view;
	for (unsigned i = 0; i < dev->attr.max_sge; i++)
		view->desc[i] = mr->desc;
	view_write(view->context, context);
	view_write(view->first, mr->first);
	view_write(view->end, mr->last + 1);
}

/* ---- the end of a region ---- */

/* Its next context differs in the generation, so that a stale one is found out. */
static void mr_give(struct tp_dev *dev, struct tp_mr *mr, uint32_t context)
{
	const uint32_t generation = (1u << GENERATION_BITS) - 1;

	atomic_store(&mr->context, 0);
	spin_lock(&dev->mrs_lock);
	while (mr->views)
		view_clear_locked(dev, mr->views);
	mr->last = (context & ~generation) | ((context + 1) & generation);
	mr->next_free = dev->free_mr;
	dev->free_mr = mr;
	spin_unlock(&dev->mrs_lock);
}

/* ---- the check of local buffers ---- */

/* As with devices, local read needs no privilege, and either write privilege grants local write. */
static bool mr_allows(const struct tp_mr *mr, uint32_t context, const struct tp_pd *pd, bool write)
{
	const unsigned writes = DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG;

	return mr && mr->context == context && mr->pd == pd && (!write || mr->priv & writes);
}

bool mem_map(struct tp_dev *dev, const struct tp_pd *pd, bool write, const struct tp_sge *sge,
	     unsigned nsge, struct iovec *iov, void **desc)
{
	for (unsigned i = 0; i < nsge; i++) {
		const struct tp_mr *mr = mr_at(dev, sge[i].lmr_context);
		uint64_t first = sge[i].address, last = first + sge[i].length - 1;

		if (!mr_allows(mr, sge[i].lmr_context, pd, write) || first < mr->first ||
		    last > mr->last || last < first)
			return false;
		iov[i] = (struct iovec){ (void *)(uintptr_t)first, sge[i].length };
		desc[i] = mr->desc;
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
	if (queue_is_fast(queue) && mr && mr->last < INT64_MAX &&
	    mr_allows(mr, sge->lmr_context, pd, write))
		view_show_locked(dev, view, mr, sge->lmr_context);
	spin_unlock(&dev->mrs_lock);
}

/* ---- registration ---- */

/* libfabric's rights of a region; a remote right takes the local one with some providers. */
static uint64_t fi_access_of(const struct tp_dev *dev, DAT_MEM_PRIV_FLAGS priv)
{
	uint64_t access = FI_SEND | FI_WRITE;

	if (priv & (DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG))
		access |= FI_RECV;
	/* on iWARP libfabric adds remote write, which the consumer has to grant itself */
	if (priv & DAT_MEM_PRIV_REMOTE_WRITE_FLAG ||
	    (priv & DAT_MEM_PRIV_LOCAL_WRITE_FLAG && !dev->read_needs_write))
		access |= FI_READ;
	if (priv & DAT_MEM_PRIV_REMOTE_READ_FLAG)
		access |= FI_REMOTE_READ;
	if (priv & DAT_MEM_PRIV_REMOTE_WRITE_FLAG)
		access |= FI_REMOTE_WRITE;
	return access;
}

/*
 * libfabric's tcp registers whatever it is told, and a wrong address would crash the process in the
 * middle of a transfer. So the kernel is asked to map the pages, as it does where a device pins
 * them.
 */
static int range_check(void *address, size_t size, DAT_MEM_PRIV_FLAGS priv)
{
	bool writable = priv & (DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)address;
	uintptr_t start = from & ~(page - 1);
	size_t length = from + size - start;
	enum mapping mapping;

	if (from + size < from)
		return -EFAULT;
	if (!madvise((void *)start, length, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	if (errno != EINVAL)
		return errno == ENOMEM ? -EFAULT : -errno;
	/* before Linux 5.14, memory of a kind that can't be populated, or without the right */
	mapping = mapping_of(&(struct span){ address, size });
	if (mapping == MAPPING_HOLES)
		return -EFAULT;
	return mapping == MAPPING_READONLY && writable ? -EACCES : 0;
}

/* A random one, so that a peer can't guess it, as wide as the provider's may be. */
uint64_t mem_key_choose(const struct fi_info *info)
{
	const size_t size = info->domain_attr->mr_key_size;
	uint32_t key = 0;

	while (!key) {
		if (getrandom(&key, sizeof(key), 0) < 0 && errno != EINTR)
			key = (uint32_t)tp_now();
		if (size && size < sizeof(key))
			key &= (1u << 8 * size) - 1;
	}
	return key;
}

/*
 * Where the domain reports registrations through a queue: waits for the end of this one. What is
 * left there of one that nobody waited for is dropped.
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

static int mr_register_once(struct tp_dev *dev, const struct fi_mr_attr *attr, struct fid_mr **fi)
{
	int ret;

	if (!dev->mr_eq)
		return fi_mr_regattr(dev->domain, attr, 0, fi);
	mutex_lock(&dev->mr_eq_lock);
	ret = fi_mr_regattr(dev->domain, attr, 0, fi);
	if (!ret) {
		ret = mr_await(dev, *fi);
		if (ret)
			fi_close(&(*fi)->fid);
	}
	mutex_unlock(&dev->mr_eq_lock);
	return ret;
}

/* A key that is in use is refused, and another one tried. Returns as libfabric does. */
static int mr_register(struct tp_dev *dev, void *address, size_t size, uint64_t access,
		       struct fid_mr **fi)
{
	const struct iovec iov = { address, size };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = access };
	int ret = -FI_ENOKEY;

	for (unsigned i = 0; i < KEY_ATTEMPTS && ret == -FI_ENOKEY; i++) {
		attr.requested_key = dev->provider_keys ? 0 : mem_key_choose(dev->info);
		ret = mr_register_once(dev, &attr, fi);
	}
	if (ret && dev->pins_pages)
		memlock_name_cause(&dev->attr, "fi_mr_regattr", address, size, (int)-ret);
	return ret;
}

/* A region that no peer may access has no key with some providers. */
static bool key_fits(struct fid_mr *fi)
{
	return fi_mr_key(fi) <= UINT32_MAX || fi_mr_key(fi) == FI_KEY_NOTAVAIL;
}

int tp_mr_reg(struct tp_pd *pd, void *address, size_t size, DAT_MEM_PRIV_FLAGS priv, unsigned flags,
	      struct tp_mr **out, struct tp_mr_info *info)
{
	struct tp_dev *dev = pd->dev;
	struct fid_mr *fi;
	struct tp_mr *mr;
	uint32_t context;
	int err;

	/* a bind, which has no flags, is to a part of a region that needs no order */
	if (dev->attr.caps & TP_CAP_RELAXED_ONLY && flags == TP_REG_WINDOWS)
		return -EOPNOTSUPP;
	err = range_check(address, size, priv);
	if (err)
		return err;
	mr = mr_take(dev, &context);
	if (!mr)
		return -ENOMEM;
	err = ofi_errno(mr_register(dev, address, size, fi_access_of(dev, priv), &fi));
	if (!err && !key_fits(fi)) {
		log_error("%s: no key of 32 bits is left for a memory region", dev->attr.device);
		fi_close(&fi->fid);
		err = -ENOSPC;
	}
	if (err) {
		mr_give(dev, mr, context);
		return err;
	}
	mr->fi = fi;
	mr->desc = fi_mr_desc(fi);
	mr->pd = pd;
	mr->priv = priv;
	mr->first = (uintptr_t)address;
	mr->last = mr->first + size - 1;
	atomic_store_explicit(&mr->context, context, memory_order_release);
	*info = (struct tp_mr_info){
		.lmr_context = context,
		.rmr_context = (DAT_RMR_CONTEXT)fi_mr_key(fi),
		.address = mr->first,
		.size = size,
	};
	*out = mr;
	return 0;
}

/* -EBUSY: libfabric has transfers of it, and it stays as it was. */
int tp_mr_dereg(struct tp_mr *mr)
{
	uint32_t context = mr->context;
	struct tp_dev *dev = mr->pd->dev;
	int ret;

	atomic_store(&mr->context, 0); /* local use ends first */
	ret = fi_close(&mr->fi->fid);
	if (ret) {
		atomic_store(&mr->context, context);
		return ofi_errno(ret);
	}
	mr_give(dev, mr, context);
	return 0;
}

/* ---- opening and closing ---- */

/* For a provider that does not register without. */
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
 * libfabric may keep a region after it was closed, in a cache in which all regions have all rights:
 * then peers could access what was never granted to them. There the same pages are one region.
 */
static bool has_mr_cache(struct tp_dev *dev, void *address, size_t size, uint64_t access,
			 const struct fid_mr *one)
{
	struct fid_mr *other;

	if (!dev->provider_keys || mr_register(dev, address, size, access, &other))
		return false;
	if (other == one)
		log_error("open %s: libfabric's cache of memory regions ignores their privileges; "
			  "set FI_MR_CACHE_MONITOR=disabled",
			  dev->attr.device);
	fi_close(&other->fid);
	return other == one;
}

/* Registers something, to see how this provider does that. */
int mem_open(struct tp_dev *dev)
{
	static char sample[64];
	struct fid_mr *fi;
	bool wide, cached;
	const uint64_t access = fi_access_of(dev, DAT_MEM_PRIV_REMOTE_READ_FLAG);
	int ret = mr_register(dev, sample, sizeof(sample), access, &fi);

	if (ret == -FI_ENOEQ) {
		ret = mr_eq_open(dev);
		if (!ret)
			ret = mr_register(dev, sample, sizeof(sample), access, &fi);
	}
	if (ret) {
		log_error("open %s: registering memory with libfabric's %s: %s", dev->attr.device,
			  dev->info->fabric_attr->prov_name, libfabric.strerror(-ret));
		return ofi_errno(ret);
	}
	wide = !key_fits(fi);
	cached = has_mr_cache(dev, sample, sizeof(sample), access, fi);
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

/* After the domain, to which the queue is bound. */
void mem_close(struct tp_dev *dev)
{
	if (dev->mr_eq)
		fi_close(&dev->mr_eq->fid);
	for (unsigned i = 0; i < MR_CHUNKS; i++)
		free(dev->mrs[i]);
}
