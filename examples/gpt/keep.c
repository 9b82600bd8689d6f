/* Copies of a training in its host's memory. */
#include "examples/gpt/keep.h"

#include <stdlib.h>

#include "examples/gpt/checkpoint_files.h"

static rota_status begin_read(gpt_kept *kept, rota_buffer *buffer, void *data, uint64_t bytes) {
    ROTA_TRY(rota_buffer_read_async(buffer, 0, data, bytes, &kept->tickets[kept->ticket_count]));
    kept->ticket_count++;
    return ROTA_OK;
}

static rota_status begin(gpt_kept *kept, const gpt_model *model) {
    for (int part = 0; part < GPT_PARTS; part++) {
        const uint64_t bytes = rota_buffer_size(model->parts[part]);
        if (!kept->parts[part] && !(kept->parts[part] = malloc(bytes)))
            return rota_fail(ROTA_OUT_OF_MEMORY, "--keep-every: no memory for a copy of the training");
        ROTA_TRY(begin_read(kept, model->parts[part], kept->parts[part], bytes));
    }
    return model->scale ? begin_read(kept, model->scale, kept->scale, sizeof kept->scale) : ROTA_OK;
}

/* Until then its memory may be written. */
static bool await_reads(const gpt_kept *kept) {
    bool read = true;
    for (uint32_t i = 0; i < kept->ticket_count; i++)
        read = rota_wait(kept->tickets[i], 0) == ROTA_OK && read;
    return read;
}

rota_status gpt_keep(gpt_keeper *keeper, uint64_t every, const gpt_model *model,
                     const gpt_progress *progress) {
    keeper->count = every < GPT_TURNS ? GPT_KEPT_MOST : 2;
    gpt_kept *kept = &keeper->kept[keeper->next];
    (void)await_reads(kept); /* of a turn long over, or of one that was left out */
    kept->ticket_count = 0;
    kept->has_all = false;
    kept->progress = *progress;
    const rota_status status = begin(kept, model);
    if (status == ROTA_OK) {
        kept->has_all = true;
        keeper->next = (keeper->next + 1) % keeper->count;
    }
    return status == ROTA_BUSY ? ROTA_OK : status;
}

static bool is_whole(const gpt_kept *kept) {
    return await_reads(kept) && kept->has_all;
}

const gpt_kept *gpt_keeper_latest(gpt_keeper *keeper) {
    const gpt_kept *latest = NULL;
    for (uint32_t i = 0; i < keeper->count; i++) {
        const gpt_kept *kept = &keeper->kept[i];
        if (is_whole(kept) && (!latest || kept->progress.step > latest->progress.step)) latest = kept;
    }
    return latest;
}

uint64_t gpt_saved_since(const gpt_saved *saved, const char *dir, uint64_t step) {
    if (saved->step >= step) return saved->step;
    const uint64_t there = gpt_checkpoint_files_step(dir);
    return there != saved->found_step && there > step ? there : 0;
}

void gpt_keeper_free(gpt_keeper *keeper) {
    for (uint32_t i = 0; i < keeper->count; i++) {
        (void)await_reads(&keeper->kept[i]);
        for (int part = 0; part < GPT_PARTS; part++) free(keeper->kept[i].parts[part]);
    }
    *keeper = (gpt_keeper){.next = 0};
}
