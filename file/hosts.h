/* Named host functions, found by name or by what they are. Internal; not installed. */
#ifndef ROTA_FILE_HOSTS_H
#define ROTA_FILE_HOSTS_H

#include <stdbool.h>
#include "base/set.h"
#include "file/graph_file.h"

/* Of rota_graph_file_host, which are borrowed; empty once begun, ended by rota_set_end. */
void rota_hosts_begin_by_name(rota_set *hosts);
void rota_hosts_begin_by_function(rota_set *hosts);
/* Those that have a name; of several that are equal the first. False: no memory. */
bool rota_hosts_add(rota_set *hosts, const rota_graph_file_host *given, uint32_t count);
/* NULL: there is none. */
const rota_graph_file_host *rota_hosts_named(rota_set *hosts, const char *name);
const rota_graph_file_host *rota_hosts_of(rota_set *hosts, rota_host_fn fn, void *user);

#endif
