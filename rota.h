/* rota: runs GPU work from a task graph. Everything public. */
#ifndef ROTA_ROTA_H
#define ROTA_ROTA_H

#include "base/status.h"
#include "base/clock.h"
#include "base/log.h"
#include "graph/buffer.h"
#include "graph/kernel.h"
#include "graph/kernel_functions.h"
#include "graph/graph.h"
#include "graph/conditional.h"
#include "exec/device.h"
#include "exec/application.h"
#include "exec/collective.h"
#include "sched/runtime.h"
#include "sched/submit.h"
#include "sched/embed.h"
#include "sched/communicator.h"
#include "sched/plan.h"
#include "sched/rewrite.h"
#include "ops/tensor.h"
#include "ops/ops.h"
#include "ops/ops_collective.h"
#include "ops/kernels.h"
#include "ops/fuse.h"
#include "ops/table.h"
#include "ops/direct.h"
#include "ops/dlpack.h"
#include "ops/custom.h"
#include "ops/deprecated.h"
#include "file/graph_file.h"

#endif
