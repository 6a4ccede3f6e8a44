/* SPDX-License-Identifier: BSD-2-Clause */
/* The device nodes of RDMA. The transports and datinfo are built with this file. */
#include "nodes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct nodes_places nodes_places = { "/sys/class/infiniband", "/dev/infiniband", "/sys/module" };

/*
 * Finds the first entry of a folder that begins with @prefix and, with @opens, can be opened; its
 * path. Returns whether there is one.
 */
static int entry_find(const char *folder, const char *prefix, int opens, char *path, size_t size)
{
	const struct dirent *entry;
	int found = 0, fd;
	DIR *dir = opendir(folder);

	while (dir && !found && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
			continue;
		snprintf(path, size, "%s/%s", folder, entry->d_name);
		if (!opens) {
			found = 1;
			break;
		}
		fd = open(path, O_RDWR | O_CLOEXEC);
		found = fd >= 0;
		if (found)
			close(fd);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* Writes why a node can't be opened. */
static void node_failed(struct nodes *nodes, const char *path, int err)
{
	struct stat node;

	if ((err != EACCES && err != EPERM) || stat(path, &node)) {
		nodes->state = NODES_OUT_OF_WORK;
		snprintf(nodes->text, sizeof(nodes->text), "%s can't be opened: %s", path,
			 strerror(err));
		return;
	}
	nodes->state = NODES_CLOSED;
	nodes->group = node.st_gid;
	snprintf(nodes->text, sizeof(nodes->text),
		 "no permission to open %s (mode %03o, user %u, group %u)", path,
		 node.st_mode & 0777, node.st_uid, node.st_gid);
}

/*
 * Returns whether one of the nodes that begin with @prefix, of which there are some, can be opened.
 * If not, @nodes says why.
 */
static int node_opens(struct nodes *nodes, const char *prefix)
{
	char path[300];
	int fd, err;

	if (entry_find(nodes_places.nodes, prefix, 1, path, sizeof(path)))
		return 1;
	(void)entry_find(nodes_places.nodes, prefix, 0, path, sizeof(path));
	fd = open(path, O_RDWR | O_CLOEXEC);
	err = errno;
	if (fd >= 0) {
		close(fd);
		return 1;
	}
	node_failed(nodes, path, err);
	return 0;
}

int nodes_has_module(const char *name)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/%s", nodes_places.modules, name);
	return access(path, F_OK) == 0;
}

/* Writes which node is missing, and whether the module that makes it is loaded. */
static void node_missing(struct nodes *nodes, enum nodes_state state, const char *name,
			 const char *module)
{
	nodes->state = state;
	nodes->has_module = nodes_has_module(module);
	snprintf(nodes->text, sizeof(nodes->text),
		 nodes->has_module ? "there is no %s%s, although the module %s is loaded"
				   : "there is no %s%s: the module %s is not loaded",
		 nodes_places.nodes, name, module);
}

int nodes_has_device(const char *name)
{
	char path[300];

	return (size_t)snprintf(path, sizeof(path), "%s/%s", nodes_places.devices, name) <
		       sizeof(path) &&
	       *name && !strchr(name, '/') && access(path, F_OK) == 0;
}

void nodes_look(struct nodes *nodes)
{
	char path[300];

	memset(nodes, 0, sizeof(*nodes));
	if (!entry_find(nodes_places.devices, "", 0, path, sizeof(path))) {
		nodes->state = NODES_NO_DEVICE;
		snprintf(nodes->text, sizeof(nodes->text),
			 "this host has no RDMA device: %s is empty", nodes_places.devices);
	} else if (access(nodes_places.nodes, F_OK)) {
		node_missing(nodes, NODES_NO_FOLDER, "", "ib_uverbs");
	} else if (!entry_find(nodes_places.nodes, "uverbs", 0, path, sizeof(path))) {
		node_missing(nodes, NODES_NO_UVERBS, "/uverbs0", "ib_uverbs");
	} else if (!node_opens(nodes, "uverbs")) {
		return;
	} else if (!entry_find(nodes_places.nodes, "rdma_cm", 0, path, sizeof(path))) {
		node_missing(nodes, NODES_NO_RDMA_CM, "/rdma_cm", "rdma_ucm");
	} else {
		(void)node_opens(nodes, "rdma_cm");
	}
}
