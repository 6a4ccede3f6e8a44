/* SPDX-License-Identifier: BSD-2-Clause */
/* The names that an IA can be opened by: the keys of dat.conf and the providers' registrations. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conf.h"
#include "libdat.h"
#include "log.h"

struct registry registry = {
	.lock = LIBDAT_MUTEX("registry.lock", LIBDAT_RANK_REGISTRY),
	.idle = PTHREAD_COND_INITIALIZER,
};

/* How much of a wanted key a candidate matches, in the order of the errors of a failed open. */
enum key_match {
	MATCH_NOTHING,
	MATCH_NAME,
	MATCH_MAJOR,
	MATCH_MINOR,
	MATCH_KEY,
};

static enum key_match key_compare(const DAT_PROVIDER_INFO *have, const DAT_PROVIDER_INFO *want)
{
	if (strcmp(have->ia_name, want->ia_name) != 0)
		return MATCH_NOTHING;
	if (have->dapl_version_major != want->dapl_version_major)
		return MATCH_NAME;
	if (have->dapl_version_minor < want->dapl_version_minor)
		return MATCH_MAJOR;
	if (!have->is_thread_safe != !want->is_thread_safe)
		return MATCH_MINOR;
	return MATCH_KEY;
}

static bool key_is_same(const DAT_PROVIDER_INFO *a, const DAT_PROVIDER_INFO *b)
{
	return key_compare(a, b) == MATCH_KEY && a->dapl_version_minor == b->dapl_version_minor;
}

static bool key_is_better(const DAT_PROVIDER_INFO *have, const DAT_PROVIDER_INFO *than,
			  const DAT_PROVIDER_INFO *want)
{
	return key_compare(have, want) == MATCH_KEY &&
	       (!than || have->dapl_version_minor < than->dapl_version_minor);
}

struct conf_key *registry_find_key_locked(const DAT_PROVIDER_INFO *want)
{
	struct conf_key *best = NULL;

	ASSERT_HELD(&registry.lock);
	for (struct conf_key *key = registry.keys; key; key = key->next)
		if (key_is_better(&key->info, best ? &best->info : NULL, want))
			best = key;
	return best;
}

struct registration *registry_find_locked(const DAT_PROVIDER_INFO *want, const struct conf_key *key)
{
	struct registration *best = NULL;

	ASSERT_HELD(&registry.lock);
	for (struct registration *registration = registry.registrations; registration;
	     registration = registration->next)
		if ((!registration->key || registration->key == key) &&
		    key_is_better(&registration->info, best ? &best->info : NULL, want))
			best = registration;
	return best;
}

bool registry_has_name_locked(const char *name)
{
	ASSERT_HELD(&registry.lock);
	for (const struct conf_key *key = registry.keys; key; key = key->next)
		if (strcmp(key->info.ia_name, name) == 0)
			return true;
	for (const struct registration *registration = registry.registrations; registration;
	     registration = registration->next)
		if (strcmp(registration->info.ia_name, name) == 0)
			return true;
	return false;
}

DAT_RETURN registry_not_found_locked(const DAT_PROVIDER_INFO *want)
{
	static const DAT_RETURN_SUBTYPE reasons[] = {
		[MATCH_NOTHING] = DAT_NAME_NOT_REGISTERED,
		[MATCH_NAME] = DAT_MAJOR_NOT_FOUND,
		[MATCH_MAJOR] = DAT_MINOR_NOT_FOUND,
		[MATCH_MINOR] = DAT_THREAD_SAFETY_NOT_FOUND,
		/* in dat.conf, but its library did not register it */
		[MATCH_KEY] = DAT_NAME_NOT_REGISTERED,
	};
	enum key_match best = MATCH_NOTHING, found;

	ASSERT_HELD(&registry.lock);
	for (const struct conf_key *key = registry.keys; key; key = key->next) {
		found = key_compare(&key->info, want);
		best = found > best ? found : best;
	}
	for (const struct registration *registration = registry.registrations; registration;
	     registration = registration->next) {
		found = key_compare(&registration->info, want);
		best = found > best ? found : best;
	}
	return DAT_ERROR(DAT_PROVIDER_NOT_FOUND, reasons[best]);
}

bool registry_lacks_major_locked(DAT_UINT32 major)
{
	ASSERT_HELD(&registry.lock);
	for (const struct conf_key *key = registry.keys; key; key = key->next)
		if (key->info.dapl_version_major == major)
			return false;
	return registry.keys != NULL;
}

static bool key_has_namesake(const struct conf_key *key, const struct conf_key *other)
{
	return other->info.dapl_version_major == key->info.dapl_version_major &&
	       strcmp(other->info.ia_name, key->info.ia_name) == 0;
}

/* Tells whether an earlier key of the same edition has the name. */
static bool key_has_earlier_name_locked(const struct conf_key *key)
{
	const struct conf_key *other = registry.keys;

	ASSERT_HELD(&registry.lock);
	while (other != key && !key_has_namesake(key, other))
		other = other->next;
	return other != key;
}

void registry_names_locked(DAT_UINT32 major, char *text, size_t size)
{
	static const char more[] = ", ...";
	size_t length = 0;

	ASSERT_HELD(&registry.lock);
	*text = '\0';
	for (const struct conf_key *key = registry.keys; key; key = key->next) {
		const char *name = key->info.ia_name;

		if (key->info.dapl_version_major != major || key_has_earlier_name_locked(key))
			continue;
		if (length + strlen(name) + 2 * sizeof(more) > size) {
			strcpy(text + length, more + (length ? 0 : 2));
			return;
		}
		length += (size_t)sprintf(text + length, "%s%s", length ? ", " : "", name);
	}
}

static struct conf_key *keys_find_exact(struct conf_key *keys, const DAT_PROVIDER_INFO *info)
{
	while (keys && !key_is_same(&keys->info, info))
		keys = keys->next;
	return keys;
}

/*
 * Returns the link that points to the registration with exactly this key, or the NULL link at the
 * list's end if there is none.
 */
static struct registration **registry_exact_link_locked(const DAT_PROVIDER_INFO *info)
{
	struct registration **link = &registry.registrations;

	ASSERT_HELD(&registry.lock);
	while (*link && !key_is_same(&(*link)->info, info))
		link = &(*link)->next;
	return link;
}

static void registry_unlink_locked(struct registration **link)
{
	struct registration *registration = *link;

	ASSERT_HELD(&registry.lock);
	*link = registration->next;
	free(registration);
}

void registry_remove_of_key_locked(const struct conf_key *key)
{
	struct registration **link = &registry.registrations;

	ASSERT_HELD(&registry.lock);
	while (*link) {
		if ((*link)->key == key && (*link)->users == 0)
			registry_unlink_locked(link);
		else
			link = &(*link)->next;
	}
}

/*
 * dat.conf is read without registry.lock, because that may take long: by the thread that sets
 * registry.conf_is_read_now, which puts the result in place under the lock.
 */
struct conf_reader {
	const char *path; /* of the file that is read */
	char *text;
	struct conf_key *keys, **end; /* end: the link that the next key is stored in */
	bool lacks_memory;	      /* for some line */
};

static void reader_clear(struct conf_reader *reader)
{
	struct conf_key *key;
	struct conf_line *line;

	while ((key = reader->keys)) {
		while ((line = key->lines)) {
			key->lines = line->next;
			free(line);
		}
		reader->keys = key->next;
		free(key);
	}
	free(reader->text);
	*reader = (struct conf_reader){ .end = &reader->keys };
}

static struct conf_key *reader_new_key(const DAT_PROVIDER_INFO *info, struct conf_reader *reader)
{
	struct conf_key *key = calloc(1, sizeof(*key));

	if (!key)
		return NULL;
	key->info = *info;
	*reader->end = key;
	reader->end = &key->next;
	return key;
}

static void reader_add_line(void *arg, unsigned number, const struct conf_entry *found)
{
	struct conf_line *line = calloc(1, sizeof(*line));
	struct conf_reader *reader = arg;
	struct conf_key *key = keys_find_exact(reader->keys, &found->info);
	struct conf_line **link;

	if (line && !key)
		key = reader_new_key(&found->info, reader);
	if (!line || !key) {
		free(line);
		reader->lacks_memory = true;
		return;
	}
	line->number = number;
	line->library = found->library;
	line->ia_params = found->ia_params;
	for (link = &key->lines; *link; link = &(*link)->next)
		;
	*link = line;
}

static void reader_refuse_line(void *arg, unsigned number, const char *reason)
{
	const struct conf_reader *reader = arg;

	libdat_log(DBG_ERROR, "%s:%u: %s", reader->path, number, reason);
}

/* Reads and parses the file. Returns 0 or -errno. */
static int reader_read(struct conf_reader *reader, const char *path)
{
	struct conf_sink sink = { .entry = reader_add_line,
				  .refused = reader_refuse_line,
				  .arg = reader };
	size_t length;
	int err = conf_text_read(path, &reader->text, &length);

	if (err)
		return err;
	libdat_log(DBG_STATIC, "%s: %zu bytes", path, length);
	reader->path = path;
	conf_parse(reader->text, length, &sink);
	return reader->lacks_memory ? -ENOMEM : 0;
}

/* Tells whether a file that could not be read may be readable later. */
static bool is_shortage(int err)
{
	return err == -ENOMEM || err == -EMFILE || err == -ENFILE;
}

/*
 * DAT_OVERRIDE names the only file to read. It is ignored in a program that runs with other
 * privileges than its user's, which secure_getenv checks. Returns false if memory or descriptors
 * were too few to tell what the file has.
 */
static bool reader_find(struct conf_reader *reader)
{
	static const char *const places[] = { DAT_CONF_DIR "/dat.conf", SYSTEM_CONF };
	const char *override = secure_getenv("DAT_OVERRIDE");
	int err;

	if (override) {
		err = reader_read(reader, override);
		if (err)
			libdat_log(DBG_ERROR, "DAT_OVERRIDE: cannot read \"%s\": %s", override,
				   conf_text_error(err));
		return !is_shortage(err);
	}
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		err = reader_read(reader, places[i]);
		if (!err)
			return true;
		/* A missing file is normal on a machine without RDMA, so it is no error. */
		libdat_log(err == -ENOENT ? DBG_STATIC : DBG_ERROR, "%s: %s", places[i],
			   conf_text_error(err));
		if (is_shortage(err))
			return false;
	}
	return true;
}

/*
 * Reads dat.conf without the lock. Other threads wait until this one has it again. If that was in
 * vain for want of memory or descriptors, conf_was_read stays false, and a later call tries again.
 */
static void registry_read_conf_relock(void)
{
	struct conf_reader reader = { .end = &reader.keys };
	bool found;

	ASSERT_HELD(&registry.lock);
	registry.conf_is_read_now = true;
	libdat_mutex_unlock(&registry.lock);
	found = reader_find(&reader);
	if (!found)
		reader_clear(&reader);
	libdat_mutex_lock(&registry.lock);
	registry.text = reader.text;
	if (reader.path)
		snprintf(registry.path, sizeof(registry.path), "%s", reader.path);
	registry.keys = reader.keys;
	registry.conf_was_read = found;
	registry.conf_is_read_now = false;
	pthread_cond_broadcast(&registry.idle);
}

DAT_RETURN registry_lock(void)
{
	enum registry_end end;

	libdat_mutex_lock(&registry.lock);
	while (registry.conf_is_read_now)
		libdat_mutex_wait(&registry.idle, &registry.lock);
	end = registry.end;
	if (end == REGISTRY_LIVES) {
		if (!registry.conf_was_read)
			registry_read_conf_relock();
		if (registry.conf_was_read)
			return DAT_SUCCESS;
		libdat_mutex_unlock(&registry.lock);
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
	}
	libdat_mutex_unlock(&registry.lock);
	if (end == REGISTRY_LOST)
		libdat_log(DBG_ERROR, "this process was forked while another thread opened or "
				      "closed an IA, or was in a provider, so it can use none");
	return DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE);
}

/* ---- exit ---- */

#define EXIT_PATIENCE 1000 /* ms */

_Thread_local unsigned own_provider_calls;

/* The thread that exits; it may still open, in handlers of the program. */
static pthread_t exiting_thread;
static atomic_bool exiting;

bool registry_is_exiting(void)
{
	return atomic_load(&exiting);
}

static bool others_open_or_close(void)
{
	return registry.end != REGISTRY_LOST && registry.provider_calls > own_provider_calls;
}

/*
 * Libraries below the providers free what they have when the process exits, libfabric among them,
 * also while another thread opens or closes an IA. So an exit waits until none has done so for a
 * moment, but not for long: between an open and the close that follows a thread is in neither. No
 * other open begins.
 */
static void exit_wait(void)
{
	NO_CANCELLATION;
	const struct timespec ms = { .tv_nsec = 1000000 };
	unsigned quiet = 0;

	if (atomic_load(&exiting))
		return; /* it was added more than once */
	exiting_thread = pthread_self();
	atomic_store(&exiting, true);
	if (!others_open_or_close())
		return;
	for (unsigned i = 0; i < EXIT_PATIENCE && quiet < 2; i++) {
		nanosleep(&ms, NULL);
		quiet = others_open_or_close() ? 0 : quiet + 1;
	}
}

/*
 * The handler has to be called before the destructors of libraries, and before handlers of theirs:
 * the latest one is called first. Without memory there is none.
 */
void exit_handler_add(void)
{
	(void)atexit(exit_wait);
}

bool registry_may_open(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, exit_handler_add);
	return !atomic_load(&exiting) || pthread_equal(exiting_thread, pthread_self());
}

/*
 * Nothing is freed, because other threads may still run while the process exits. No lock is taken:
 * in a process that was forked without the handlers of pthread_atfork its owner may not exist.
 */
static void __attribute__((destructor)) registry_close(void)
{
	registry.end = REGISTRY_CLOSED;
}

/* ---- fork ---- */

/* The other registry's datx_registry_lose; NULL: this process does not have it. */
static datx_lose_fn *_Atomic lose_other;

datx_lose_fn *datx_registry_meet(datx_lose_fn *lose)
{
	atomic_store(&lose_other, lose);
	if (registry.end == REGISTRY_LOST)
		lose();
	return datx_registry_lose;
}

/*
 * The registry that is loaded later introduces the two. A library is loaded by one thread at a
 * time, which may call the dynamic linker here; in a call of the consumer that could be a deadlock.
 */
static void __attribute__((constructor)) registries_meet(void)
{
	datx_lose_fn *(*meet)(datx_lose_fn *) = (datx_lose_fn * (*)(datx_lose_fn *))
		other_registry_find("datx_registry_meet", OTHER_DATX_NODE);

	if (meet)
		atomic_store(&lose_other, meet(datx_registry_lose));
}

void datx_registry_lose(void)
{
	datx_lose_fn *other = atomic_load(&lose_other);

	if (atomic_exchange(&registry.end, REGISTRY_LOST) != REGISTRY_LOST && other)
		other();
}

void registry_after_fork(void)
{
	const bool was_held = !libdat_mutex_reset(&registry.lock);

	pthread_cond_init(&registry.idle, NULL);
	registry.conf_is_read_now = false;
	if (!pthread_equal(exiting_thread, pthread_self()))
		atomic_store(&exiting, false);
	if (was_held || registry.provider_calls > 0)
		datx_registry_lose();
}

/* ---- registrations ---- */

static bool registry_name_is_valid(const DAT_PROVIDER_INFO *info)
{
	size_t length = strnlen(info->ia_name, DAT_NAME_MAX_LENGTH);

	return length > 0 && length < DAT_NAME_MAX_LENGTH;
}

static DAT_RETURN registry_add_locked(struct registration *registration)
{
	struct registration **link = registry_exact_link_locked(&registration->info);
	struct conf_key *key = keys_find_exact(registry.keys, &registration->info);

	ASSERT_HELD(&registry.lock);
	if (registry.end != REGISTRY_LIVES)
		return DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE);
	if (*link)
		return DAT_ERROR(DAT_PROVIDER_ALREADY_REGISTERED, DAT_NO_SUBTYPE);
	registration->key = key && key->initialising ? key : NULL;
	*link = registration;
	return DAT_SUCCESS;
}

/* Refuses a call whose arguments are at fault, with a line of the log. */
static DAT_RETURN registry_call_refused(DAT_RETURN_SUBTYPE argument, const char *call,
					enum libdat_log_kind kind)
{
	const DAT_RETURN ret = DAT_ERROR(DAT_INVALID_PARAMETER, argument);

	libdat_log_result(kind, ret, "%s: an argument is null or not possible", call);
	return ret;
}

/* Has the other registry do what a provider asks for that is not of this edition. */
static DAT_RETURN registry_hand_on(const char *call, const DAT_PROVIDER *provider,
				   const DAT_PROVIDER_INFO *info)
{
	DAT_RETURN ret;

	provider_call_begin();
	ret = other_registry_call(call, provider, info);
	provider_call_end();
	return ret;
}

DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info)
{
	NO_CANCELLATION;
	struct registration *added;
	DAT_RETURN ret;

	if (!provider)
		return registry_call_refused(DAT_INVALID_ARG1, "dat_registry_add_provider",
					     DBG_DYNAMIC);
	if (!info || !registry_name_is_valid(info))
		return registry_call_refused(DAT_INVALID_ARG2, "dat_registry_add_provider",
					     DBG_DYNAMIC);
	if (!registry_serves(info->dapl_version_major))
		return registry_hand_on("dat_registry_add_provider", provider, info);
	added = calloc(1, sizeof(*added));
	if (!added)
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
	added->info = *info;
	added->ia_open = provider->ia_open_func;
#if DAT_EDITION == 2
	added->extended_op = provider->handle_extendedop_func;
#endif
	libdat_mutex_lock(&registry.lock);
	ret = registry_add_locked(added);
	libdat_mutex_unlock(&registry.lock);
	libdat_log_result(DBG_DYNAMIC, ret, "%s u%u.%u: dat_registry_add_provider", info->ia_name,
			  info->dapl_version_major, info->dapl_version_minor);
	if (ret != DAT_SUCCESS)
		free(added);
	return ret;
}

static DAT_RETURN registry_remove_locked(const DAT_PROVIDER_INFO *info)
{
	struct registration **link = registry_exact_link_locked(info);

	ASSERT_HELD(&registry.lock);
	if (registry.end != REGISTRY_LIVES)
		return DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE);
	if (!*link)
		return DAT_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
	if ((*link)->users > 0)
		return DAT_ERROR(DAT_PROVIDER_IN_USE, DAT_NO_SUBTYPE);
	registry_unlink_locked(link);
	return DAT_SUCCESS;
}

DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info)
{
	NO_CANCELLATION;
	DAT_RETURN ret;

	if (!provider)
		return registry_call_refused(DAT_INVALID_ARG1, "dat_registry_remove_provider",
					     DBG_DYNAMIC);
	if (!info || !registry_name_is_valid(info))
		return registry_call_refused(DAT_INVALID_ARG2, "dat_registry_remove_provider",
					     DBG_DYNAMIC);
	if (!registry_serves(info->dapl_version_major))
		return registry_hand_on("dat_registry_remove_provider", provider, info);
	libdat_mutex_lock(&registry.lock);
	ret = registry_remove_locked(info);
	libdat_mutex_unlock(&registry.lock);
	libdat_log_result(DBG_DYNAMIC, ret, "%s u%u.%u: dat_registry_remove_provider",
			  info->ia_name, info->dapl_version_major, info->dapl_version_minor);
	return ret;
}

static DAT_COUNT registry_count_keys_locked(void)
{
	DAT_COUNT count = 0;

	ASSERT_HELD(&registry.lock);
	for (const struct conf_key *key = registry.keys; key; key = key->next)
		count++;
	return count;
}

static DAT_RETURN registry_list_locked(DAT_COUNT max, DAT_COUNT *number, DAT_PROVIDER_INFO **list)
{
	const DAT_COUNT total = registry_count_keys_locked();
	const DAT_COUNT filled = max < total ? max : total;
	const struct conf_key *key = registry.keys;

	ASSERT_HELD(&registry.lock);
	if (max == 0)
		*number = total;
	if (max <= 0)
		return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
	/*
	 * Only the pointers that are used are checked: known programs pass the address of one
	 * pointer and a count of eight.
	 */
	for (DAT_COUNT i = 0; i < filled; i++)
		if (!list[i])
			return DAT_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
	for (DAT_COUNT i = 0; i < filled; i++, key = key->next)
		*list[i] = key->info;
	*number = filled;
	return DAT_SUCCESS;
}

DAT_RETURN dat_registry_list_providers(DAT_COUNT max, DAT_COUNT *number, DAT_PROVIDER_INFO **list)
{
	NO_CANCELLATION;
	DAT_RETURN ret;

	if (!number)
		return registry_call_refused(DAT_INVALID_ARG2, "dat_registry_list_providers",
					     DBG_CONSUMER);
	if (!list && max > 0)
		return registry_call_refused(DAT_INVALID_ARG3, "dat_registry_list_providers",
					     DBG_CONSUMER);
	ret = registry_lock();
	if (ret != DAT_SUCCESS)
		return ret;
	ret = registry_list_locked(max, number, list);
	libdat_mutex_unlock(&registry.lock);
	if (ret != DAT_SUCCESS)
		libdat_log_result(DBG_CONSUMER, ret, "dat_registry_list_providers(%d)", max);
	return ret;
}
