/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program of both editions of DAT calls of each: edition_end.c is compiled once for either,
 * as a module, because the headers of the editions have the same names.
 */
#ifndef EDITIONS_TEST_H
#define EDITIONS_TEST_H

#include <netinet/in.h>
#include <stdint.h>

#define END_MEMORY 65536

/* An open IA with all that one connection needs. */
struct end;

/*
 * The functions of one module. What fails is told to fail(), with a text and the result of the
 * call, and that does not return. What is waited for comes, or it fails.
 */
struct edition {
	int number;
	struct end *(*open)(const char *name, void (*fail)(const char *what, uint32_t result));
	void (*close)(struct end *end); /* abruptly */
	unsigned char *(*memory)(const struct end *end);
	struct sockaddr_in (*address)(const struct end *end);
	uint64_t (*listen)(struct end *end); /* returns the qualifier */
	void (*ask)(struct end *end, struct sockaddr_in to, uint64_t qual, const char *text);
	/* The text is what the other end has asked with. */
	void (*accept)(struct end *end, const char *text);
	void (*established)(struct end *end);
	/* With so many bytes of private data, which are the end's memory; DAT 1.2 has none. */
	void (*reject)(struct end *end, unsigned size);
	/* Returns how many bytes of private data the event has, and makes a copy of them. */
	unsigned (*rejected)(struct end *end, unsigned char bytes[256]);
	/* A message from the start of the memory into the second half of the other end's. */
	void (*post_recv)(struct end *end, uint64_t cookie);
	void (*post_send)(struct end *end, uint64_t cookie, unsigned size);
	void (*sent)(struct end *end, uint64_t cookie, unsigned size);
	void (*received)(struct end *end, uint64_t cookie, unsigned size);
	void (*disconnect)(struct end *end);
	void (*disconnected)(struct end *end);
};

#endif
