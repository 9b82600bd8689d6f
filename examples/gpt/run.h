/* What train_gpt does once its settings are known: as one rank, or as several. */
#ifndef ROTA_EXAMPLES_GPT_RUN_H
#define ROTA_EXAMPLES_GPT_RUN_H

#include "examples/gpt/train.h"

#define GPT_RANKS_MOST 1024 /* of one process */

/* Trains or writes. As many ranks as --ranks says are threads of this process, each with a runtime and a share of the
 * processors; where mpirun started the process, as rota-run has it do, it is one rank of those. Ends early, on all
 * ranks after the same step, once *interrupted is set. Returns the exit code. */
int gpt_run(const gpt_settings *settings, const atomic_bool *interrupted);

#endif
