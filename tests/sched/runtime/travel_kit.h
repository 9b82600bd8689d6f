/* A runtime with a device of each executor, and plans whose first node may be told to fail: what the tests of
 * failures that travel between devices have in common. */
#ifndef ROTA_TESTS_TRAVEL_KIT_H
#define ROTA_TESTS_TRAVEL_KIT_H

#include <stdatomic.h>
#include <stddef.h>
#include "tests/adversary/adversary.h"
#include "tests/kit/runtime_support.h"

#define WORDS 256u
#define SEED 5u
/* Of memory: a limit all the same, so that what transfers are promised is counted from the beginning. */
#define PLENTY ((uint64_t)1 << 40)

enum { CPU, ADVERSARY, CUDA, VK, KINDS };
extern const char *const ids[KINDS];

typedef struct house {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *devices[KINDS]; /* NULL: there is none in this build or on this machine */
} house;

house *open_house(bool is_linked);
void close_house(house *h);

/* A source fails, or writes 7 to its operand: not before the gate is open. Each has a bit of must_fail, which is
 * its user pointer or parameter. */
extern _Atomic uint32_t must_fail;
void open_gate(bool open);
/* As a host node's function. */
rota_status source_host(void *user, void *const *operands, const uint64_t *bytes, uint32_t count);

typedef enum source_kind { HOST_NODE, CPU_KERNEL, ADVERSARY_KERNEL, SOURCES } source_kind;

uint32_t mapped(uint32_t value, uint32_t i);
/* WORDS of this value, on the device. */
rota_buffer *filled(rota_device *device, const char *name, uint32_t value);

/* A graph that is being recorded. */
typedef struct sketch {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_device *devices[KINDS + 2];
    uint32_t device_count, queues;
} sketch;

void sketch_open(sketch *s);
/* The device's number in placements. */
uint32_t number_of(sketch *s, rota_device *device);
void add_source_to(sketch *s, const house *h, source_kind kind, rota_access access, uint32_t bit);
void add_source(sketch *s, const house *h, source_kind kind, rota_buffer *x);
/* to[i] = mapped(from[i], i), for so many words */
void add_map_of(sketch *s, rota_placement placement, rota_access from, rota_access to, uint32_t words);
void add_map(sketch *s, rota_device *device, rota_buffer *from, rota_buffer *to);
rota_plan *sketch_compile(sketch *s, const house *h, const char *name);
rota_plan *source_plan(const house *h, source_kind kind, rota_buffer *x);
rota_plan *map_plan(const house *h, rota_device *device, rota_buffer *from, rota_buffer *to);

/* Lets go of what a round made: its timeline, or NULL, then its plans and its buffers, NULL after the last of each. */
void release_all(rota_external_timeline *timeline, rota_plan *const *plans, rota_buffer *const *buffers);
#define PLANS(...) ((rota_plan *const[]){__VA_ARGS__, NULL})
#define BUFFERS(...) ((rota_buffer *const[]){__VA_ARGS__, NULL})

void expect_untouched(const uint32_t *words, uint32_t count, const char *when);
void expect_failed(rota_buffer *buffer, const char *when);
void expect_ticket(rota_ticket ticket, bool failed, const char *when);
/* `begin`, mapped so many times. */
void expect_mapped(rota_buffer *buffer, uint32_t begin, uint32_t times, const char *when);

typedef struct chain {
    rota_buffer *x, *y, *z, *a, *b;
} chain;

chain chain_make(const house *h);
void chain_release(chain *c);

void describe(char *text, size_t size, const char *what, source_kind kind, uint32_t first, uint32_t second);

#endif
