/* What every transport must do (exec/comm/transport.h), as one rank of it: all ranks run the same at once. */
#ifndef ROTA_TESTS_TRANSPORT_CONTRACT_H
#define ROTA_TESTS_TRANSPORT_CONTRACT_H

#include "exec/comm/transport.h"

/* Every case on it, those that end a transport on one that is split off. Aborts the process where one fails. Leaves it
 * open. */
void transport_contract(rota_transport *transport);

#endif
