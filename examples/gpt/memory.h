/* What takes a device's memory in training. */
#ifndef ROTA_EXAMPLES_GPT_MEMORY_H
#define ROTA_EXAMPLES_GPT_MEMORY_H

#include "examples/gpt/model.h"

/* report_failure, whose sentence has need and budget, and for OUT_OF_MEMORY on the same line what the weights
 * take and the largest tensors. Returns the exit code. */
int gpt_memory_failure(const char *program, rota_status status, const gpt_model *model);

#endif
