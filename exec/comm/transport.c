/* What is the same for all transports. */
#include "exec/comm/transport.h"

#include "base/clock.h"
#include "base/futex.h"

enum { NAP_NS = 100000 };

void rota_transport_close(rota_transport *transport, uint64_t deadline_ns, uint64_t *out_abandoned_bytes) {
    while (!transport->vtable->close(transport, deadline_ns, out_abandoned_bytes)) {
        if (transport->lingers)
            deadline_ns = 0; /* its group goes on with the rest */
        else
            rota_nap_until(rota_deadline_after(NAP_NS));
    }
}
