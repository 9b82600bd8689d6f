/* Named host functions. */
#include "file/hosts.h"

#include <string.h>
#include "base/hash.h"

static unsigned long hash_name(const void *host, unsigned long seed) {
    return rota_hash_text(ROTA_HASH_BEGIN ^ seed, ((const rota_graph_file_host *)host)->name);
}
static bool same_name(const void *a, const void *b) {
    return strcmp(((const rota_graph_file_host *)a)->name, ((const rota_graph_file_host *)b)->name) == 0;
}

static unsigned long hash_function(const void *host, unsigned long seed) {
    const rota_graph_file_host *function = host;
    return rota_hash_mix(rota_hash_mix((uintptr_t)function->user) ^ (uintptr_t)function->fn ^ seed);
}
static bool same_function(const void *a, const void *b) {
    const rota_graph_file_host *x = a, *y = b;
    return x->fn == y->fn && x->user == y->user;
}

void rota_hosts_begin_by_name(rota_set *hosts) {
    *hosts = (rota_set)ROTA_SET(hash_name, same_name);
}

void rota_hosts_begin_by_function(rota_set *hosts) {
    *hosts = (rota_set)ROTA_SET(hash_function, same_function);
}

bool rota_hosts_add(rota_set *hosts, const rota_graph_file_host *given, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (given[i].name && !rota_set_get(hosts, &given[i]) && !rota_set_put(hosts, &given[i])) return false;
    return true;
}

const rota_graph_file_host *rota_hosts_named(rota_set *hosts, const char *name) {
    const rota_graph_file_host sought = {.name = name};
    return rota_set_get(hosts, &sought);
}

const rota_graph_file_host *rota_hosts_of(rota_set *hosts, rota_host_fn fn, void *user) {
    const rota_graph_file_host sought = {.fn = fn, .user = user};
    return rota_set_get(hosts, &sought);
}
