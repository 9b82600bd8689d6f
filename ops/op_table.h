/* The table of ops, for what the library is made of. Internal. */
#ifndef ROTA_OPS_OP_TABLE_H
#define ROTA_OPS_OP_TABLE_H

#include <stdbool.h>
#include "ops/table.h"

/* Whether the op is one of the table's, whose names are static. */
bool rota_op_is_listed(const rota_op *op);

#endif
