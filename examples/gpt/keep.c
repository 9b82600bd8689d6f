/* Copies of a training in its host's memory. */
#include "examples/gpt/keep.h"

#include <stdlib.h>

static rota_status begin(gpt_kept *kept, const gpt_model *model) {
    rota_ticket *tickets = kept->tickets;
    for (int part = 0; part < GPT_PARTS; part++) {
        const uint64_t bytes = rota_buffer_size(model->parts[part]);
        if (!kept->parts[part] && !(kept->parts[part] = malloc(bytes)))
            return rota_fail(ROTA_OUT_OF_MEMORY, "--keep-every: no memory for a copy of the training");
        ROTA_TRY(rota_buffer_read_async(model->parts[part], 0, kept->parts[part], bytes, &tickets[part]));
    }
    return model->scale
               ? rota_buffer_read_async(model->scale, 0, kept->scale, sizeof kept->scale, &tickets[GPT_PARTS])
               : ROTA_OK;
}

rota_status gpt_keep(gpt_keeper *keeper, uint64_t every, const gpt_model *model,
                     const gpt_progress *progress) {
    keeper->count = every < GPT_TURNS ? GPT_KEPT_MOST : 2;
    gpt_kept *kept = &keeper->kept[keeper->next];
    kept->ticket_count = 0;
    kept->progress = *progress;
    const rota_status status = begin(kept, model);
    if (status == ROTA_OK) {
        kept->ticket_count = GPT_PARTS + (model->scale != NULL);
        keeper->next = (keeper->next + 1) % keeper->count;
    }
    return status == ROTA_BUSY ? ROTA_OK : status;
}

static bool is_whole(const gpt_kept *kept) {
    bool whole = kept->ticket_count > 0;
    for (uint32_t i = 0; i < kept->ticket_count; i++)
        whole = rota_wait(kept->tickets[i], 0) == ROTA_OK && whole;
    return whole;
}

const gpt_kept *gpt_keeper_latest(gpt_keeper *keeper) {
    const gpt_kept *latest = NULL;
    for (uint32_t i = 0; i < keeper->count; i++) {
        const gpt_kept *kept = &keeper->kept[i];
        if (is_whole(kept) && (!latest || kept->progress.step > latest->progress.step)) latest = kept;
    }
    return latest;
}

void gpt_keeper_free(gpt_keeper *keeper) {
    for (uint32_t i = 0; i < keeper->count; i++) {
        (void)is_whole(&keeper->kept[i]); /* until then it may be written */
        for (int part = 0; part < GPT_PARTS; part++) free(keeper->kept[i].parts[part]);
    }
    *keeper = (gpt_keeper){.next = 0};
}
