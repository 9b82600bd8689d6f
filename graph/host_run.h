/* Inside of a run of a host node that ends later. Internal; not installed. */
#ifndef ROTA_GRAPH_HOST_RUN_H
#define ROTA_GRAPH_HOST_RUN_H

#include "graph/graph.h"

/* An executor's own struct for it begins with this. */
struct rota_host_run {
    /* Any thread, once. `message` is copied; "" of ROTA_OK. */
    void (*end)(rota_host_run *run, rota_status status, const char *message);
    /* By `begin`, before anything that may end it: it is over sooner than a thread that sleeps is awake, and others
     * like it come soon. May be NULL. */
    void (*is_brief)(rota_host_run *run);
};

#endif
