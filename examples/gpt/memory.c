/* What takes a device's memory in training. */
#include "examples/gpt/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include "bench/report.h"
#include "examples/gpt/cuts.h"

#define SHOWN 4

typedef struct sized {
    const char *name;
    uint64_t bytes;
} sized;

static int larger_first(const void *a, const void *b) {
    const sized *x = a, *y = b;
    return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

int gpt_memory_failure(const char *program, rota_status status, const gpt_model *model) {
    const gpt_config *c = &model->config;
    sized *tensors =
        status == ROTA_OUT_OF_MEMORY ? malloc((model->parameter_count + 2u) * sizeof *tensors) : NULL;
    if (!tensors) return report_failure(program, status);
    uint32_t count = 0;
    for (; count < model->parameter_count; count++)
        tensors[count] = (sized){model->parameters[count].name, model->parameters[count].own_count * 4};
    const uint64_t bytes = (uint64_t)rota_dtype_bytes((rota_dtype)c->dtype);
    tensors[count++] = (sized){"logits", c->batch * c->block * gpt_model_table_rows(model) * bytes};
    tensors[count++] =
        (sized){"a layer's widened rows", c->batch * c->block * 4 * gpt_cut_dim(model) * bytes};
    qsort(tensors, count, sizeof *tensors, larger_first);
    fprintf(stderr, "%s: %s; weights and optimizer state take %" PRIu64 " bytes", program, rota_last_error(),
            model->element_count * (model->copies ? 14u : 12u));
    fprintf(stderr, "; the largest tensors:");
    for (uint32_t i = 0; i < SHOWN && i < count; i++)
        fprintf(stderr, "%s %s %" PRIu64, i ? "," : "", tensors[i].name, tensors[i].bytes);
    fprintf(stderr, "; a smaller --batch needs less, and --accumulate makes up for it%s\n",
            model->communicator && !model->one_model && (!model->groups || c->gathers_once)
                ? "; so does --shard-parameters"
                : "");
    free(tensors);
    return EXIT_BAD_ARGUMENT;
}
