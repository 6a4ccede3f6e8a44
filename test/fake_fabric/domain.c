/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabrics, domains, memory regions. */
#include "impl.h"

#define MR_RIGHTS (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

/* ---- regions ---- */

static int mr_close(struct fid *fid)
{
	struct ff_mr *mr = (struct ff_mr *)fid, **link = &mr->domain->mrs;
	int err = ff_enter(CALL_fi_close_mr);

	if (err)
		return -err;
	if (mr->users) {
		mr->users--;
		ff_unlock();
		return 0;
	}
	while (*link != mr)
		link = &(*link)->next;
	*link = mr->next;
	if (mr->domain->mr_eq)
		ff_events_drop(mr->domain->mr_eq, fid);
	mr->domain->users--;
	memset(mr, 0xee, sizeof(*mr));
	__asm__ volatile("" : : "r"(mr) : "memory"); /* or the compiler leaves that out */
	free(mr);
	ff_alive_add(FF_MR, -1);
	ff_unlock();
	return 0;
}

static int mr_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
	int err = ff_enter(CALL_fi_mr_bind);

	(void)fid, (void)to, (void)flags;
	if (!err)
		ff_unlock();
	return err ? -err : -FI_ENOSYS;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
	int err = ff_enter(CALL_fi_mr_enable);

	(void)arg;
	if (err)
		return -err;
	if (command == FI_ENABLE)
		((struct ff_mr *)fid)->enabled = true;
	ff_unlock();
	return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops mr_ops = {
	.size = sizeof(mr_ops),
	.close = mr_close,
	.bind = mr_bind,
	.control = mr_control,
};

static struct ff_mr *mr_of_key(const struct ff_domain *domain, uint64_t key)
{
	struct ff_mr *mr = domain->mrs;

	while (mr && mr->fid.key != key)
		mr = mr->next;
	return mr;
}

/* Who chooses it is the mode's to say. */
static int key_give(struct ff_domain *domain, const struct fi_mr_attr *attr, uint64_t *key)
{
	const size_t size = ff.provider.mr_key_size;

	if (ff.provider.keys_for_peers && !(attr->access & (FI_REMOTE_READ | FI_REMOTE_WRITE))) {
		*key = FI_KEY_NOTAVAIL;
		return 0;
	}
	if (domain->mr_mode & (FI_MR_PROV_KEY | FI_MR_BASIC)) {
		*key = domain->next_key++;
		return 0;
	}
	if (size < sizeof(*key) && attr->requested_key >> (8 * size))
		return -FI_EINVAL;
	*key = attr->requested_key;
	return mr_of_key(domain, *key) ? -FI_ENOKEY : 0;
}

/* The region's key can't be had before the event about it was read. */
static void registration_report(struct ff_domain *domain, struct ff_mr *mr)
{
	const struct ff_event event = {
		.type = FI_MR_COMPLETE,
		.fid = &mr->fid.fid,
		.err = ff_step_locked(CALL_fi_mr_complete),
	};

	ff_event_add(domain->mr_eq, &event);
}

static int mr_regattr_locked(struct ff_domain *domain, const struct fi_mr_attr *attr,
			     uint64_t flags, struct fid_mr **out)
{
	struct ff_mr *mr;
	uint64_t key;
	int ret;

	ff_require(attr->iov_count == 1 && attr->mr_iov->iov_len, "a region of no bytes");
	ff_require(!attr->offset || domain->virtual_addresses, "an offset is for libfabric's tcp");
	ff_require(!(attr->access & ~MR_RIGHTS), "unknown rights of a region");
	ff.seen.mr = *attr;
	ff.seen.mr_flags = flags;
	if (ff.provider.asynchronous && !domain->mr_eq)
		return -FI_ENOEQ;
	for (mr = ff.provider.caches && ff_memory_is_monitored() ? domain->mrs : NULL; mr;
	     mr = mr->next)
		if (mr->base == attr->mr_iov->iov_base && mr->length == attr->mr_iov->iov_len) {
			mr->users++;
			*out = &mr->fid;
			return 0;
		}
	ret = key_give(domain, attr, &key);
	if (ret)
		return ret;
	mr = calloc(1, sizeof(*mr));
	ff_require(mr, "no memory for a region");
	mr->fid = (struct fid_mr){
		.fid = { FI_CLASS_MR, attr->context, &mr_ops },
		.mem_desc = mr,
		.key = key,
	};
	mr->domain = domain;
	mr->base = attr->mr_iov->iov_base;
	mr->length = attr->mr_iov->iov_len;
	mr->bias = attr->offset;
	mr->access = attr->access;
	mr->enabled = !(domain->mr_mode & FI_MR_ENDPOINT) && !(flags & FI_RMA_EVENT);
	mr->next = domain->mrs;
	domain->mrs = mr;
	domain->users++;
	ff_alive_add(FF_MR, 1);
	*out = &mr->fid;
	if (domain->mr_eq)
		registration_report(domain, mr);
	return 0;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **mr)
{
	int ret = -ff_enter(CALL_fi_mr_regattr);

	if (ret)
		return ret;
	ret = mr_regattr_locked((struct ff_domain *)fid, attr, flags, mr);
	ff_unlock();
	return ret;
}

char *ff_mr_find(struct ff_domain *domain, uint64_t key, uint64_t address, size_t length,
		 uint64_t access)
{
	const struct ff_mr *mr = mr_of_key(domain, key);
	uint64_t offset;

	if (!mr || !mr->enabled || (mr->access & access) != access)
		return NULL;
	offset = domain->virtual_addresses ? address + mr->bias - (uintptr_t)mr->base : address;
	return offset <= mr->length && length <= mr->length - offset ? mr->base + offset : NULL;
}

void ff_desc_check(struct ff_domain *domain, const struct iovec *iov, void **desc, size_t count,
		   uint64_t access)
{
	ff.seen.desc = count && desc ? desc[0] : NULL;
	if (!(domain->mr_mode & (FI_MR_LOCAL | FI_MR_BASIC)))
		return;
	for (size_t i = 0; i < count; i++) {
		const struct ff_mr *mr = desc ? desc[i] : NULL;

		if (!iov[i].iov_len)
			continue;
		ff_require(mr, "a segment without a descriptor");
		ff_require(mr->access & access, "a segment in a region without the right");
		ff_require((char *)iov[i].iov_base >= mr->base &&
				   (char *)iov[i].iov_base + iov[i].iov_len <=
					   mr->base + mr->length,
			   "a segment outside of its region");
	}
}

/* ---- domains ---- */

static int domain_close(struct fid *fid)
{
	struct ff_domain *domain = (struct ff_domain *)fid;

	ff_lock();
	if (domain->users) {
		ff_unlock();
		return -FI_EBUSY;
	}
	if (domain->mr_eq)
		domain->mr_eq->users--;
	domain->fabric->users--;
	free(domain);
	ff_alive_add(FF_DOMAIN, -1);
	ff_unlock();
	return 0;
}

static int domain_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
	struct ff_domain *domain = (struct ff_domain *)fid;
	int err = ff_enter(CALL_fi_domain_bind);

	if (err)
		return -err;
	ff_require(flags == FI_REG_MR && to->fclass == FI_CLASS_EQ, "what is bound to a domain");
	domain->mr_eq = (struct ff_eq *)to;
	domain->mr_eq->users++;
	ff_unlock();
	return 0;
}

static struct fi_ops domain_fi_ops = {
	.size = sizeof(domain_fi_ops),
	.close = domain_close,
	.bind = domain_bind,
};
static struct fi_ops_domain domain_ops = {
	.size = sizeof(domain_ops),
	.cq_open = ff_cq_open,
	.endpoint = ff_endpoint,
	.srx_ctx = ff_srx_context,
};
static struct fi_ops_mr registration_ops = {
	.size = sizeof(registration_ops),
	.regattr = mr_regattr,
};

static int domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **out,
		       void *context)
{
	struct ff_domain *domain;
	int err = ff_enter(CALL_fi_domain);

	if (err)
		return -err;
	domain = calloc(1, sizeof(*domain));
	ff_require(domain, "no memory for a domain");
	domain->fid = (struct fid_domain){
		.fid = { FI_CLASS_DOMAIN, context, &domain_fi_ops },
		.ops = &domain_ops,
		.mr = &registration_ops,
	};
	domain->fabric = (struct ff_fabric *)fabric;
	domain->mr_mode = info->domain_attr->mr_mode;
	domain->virtual_addresses = domain->mr_mode & FI_MR_BASIC ||
				    ff.provider.mr_mode & FI_MR_VIRT_ADDR ||
				    (domain->mr_mode & FI_MR_VIRT_ADDR &&
				     !ff.provider.ignores_virtual);
	domain->next_key = ff.provider.first_key;
	domain->fabric->users++;
	ff.seen.mr_mode = domain->mr_mode;
	ff_alive_add(FF_DOMAIN, 1);
	*out = &domain->fid;
	ff_unlock();
	return 0;
}

/* ---- fabrics ---- */

static int fabric_close(struct fid *fid)
{
	struct ff_fabric *fabric = (struct ff_fabric *)fid;

	ff_lock();
	if (fabric->users) {
		ff_unlock();
		return -FI_EBUSY;
	}
	free(fabric);
	ff_alive_add(FF_FABRIC, -1);
	ff_unlock();
	return 0;
}

static struct fi_ops fabric_fi_ops = { .size = sizeof(fabric_fi_ops), .close = fabric_close };
static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(fabric_ops),
	.domain = domain_open,
	.passive_ep = ff_pep_open,
	.eq_open = ff_eq_open,
	.trywait = ff_trywait,
};

int ff_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
	struct ff_fabric *fabric;
	int err = ff_enter(CALL_fi_fabric);

	(void)attr;
	if (err)
		return -err;
	fabric = calloc(1, sizeof(*fabric));
	ff_require(fabric, "no memory for a fabric");
	fabric->fid = (struct fid_fabric){
		.fid = { FI_CLASS_FABRIC, context, &fabric_fi_ops },
		.ops = &fabric_ops,
		.api_version = FI_VERSION(1, 11),
	};
	ff_alive_add(FF_FABRIC, 1);
	*out = &fabric->fid;
	ff_unlock();
	return 0;
}
