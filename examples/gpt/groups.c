/* A GPT of whose parameters each rank has a part alone. */
#include "examples/gpt/groups.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t group_of(const gpt_model *model, const gpt_parameter *p) {
    if (p->index < GPT_FIRST_LAYER || p->index >= GPT_LAST_NORM(model->config.layers)) return GPT_GROUP_ENDS;
    return 1 + (p->index - GPT_FIRST_LAYER) / GPT_LAYER_PLACES;
}

static rota_status create_group(gpt_model *model, uint32_t number) {
    gpt_group *g = &model->groups[number];
    rota_tensor likes[GPT_GROUP_MOST];
    g->members = calloc(GPT_GROUP_MOST, sizeof *g->members);
    if (!g->members) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for group %" PRIu32, number);
    for (uint32_t rank = 2; rank > 0; rank--)
        for (uint32_t i = 0; i < model->parameter_count; i++) {
            gpt_parameter *p = &model->parameters[i];
            if (p->rank != rank || group_of(model, p) != number) continue;
            const uint64_t rows = p->index == GPT_TOKENS ? gpt_model_table_rows(model) : p->shape[0];
            ROTA_TRY(rota_tensor_of(NULL, 0, ROTA_F32, rank, (const uint64_t[]){rows, p->shape[1]},
                                    &likes[g->count]));
            p->group = number;
            p->member = g->count;
            g->members[g->count++] = i;
        }
    ROTA_TRY(rota_sharding_create_group(model->communicator, likes, g->count, &g->sharding));
    g->first = model->element_count;
    model->element_count += rota_sharding_elements(g->sharding);
    return ROTA_OK;
}

rota_status gpt_groups_create(gpt_model *model) {
    model->group_count = (uint32_t)model->config.layers + 1;
    model->groups = calloc(model->group_count, sizeof *model->groups);
    if (!model->groups)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for %" PRIu32 " groups", model->group_count);
    for (uint32_t i = 0; i < model->group_count; i++) ROTA_TRY(create_group(model, i));
    return ROTA_OK;
}

void gpt_groups_free(gpt_model *model) {
    for (uint32_t i = 0; model->groups && i < model->group_count; i++) {
        rota_sharding_release(model->groups[i].sharding);
        free(model->groups[i].members);
    }
    free(model->groups);
}

/* The next piece of a parameter among those from *next on: `count` of its elements, less those that are rows of the
 * table which only memory has. */
static bool next_piece(const gpt_model *model, const gpt_parameter *p, uint32_t *next,
                       rota_shard_piece *out) {
    const rota_shard_piece *pieces;
    uint32_t count;
    if (rota_sharding_get_pieces(model->groups[p->group].sharding, &pieces, &count) != ROTA_OK) return false;
    while (*next < count) {
        *out = pieces[(*next)++];
        if (out->parameter != p->member || out->first >= p->count) continue;
        if (out->first + out->count > p->count) out->count = p->count - out->first;
        return true;
    }
    return false;
}

rota_status gpt_groups_write(gpt_model *model, const gpt_parameter *p, int part, const float *values) {
    rota_shard_piece piece;
    for (uint32_t next = 0; next_piece(model, p, &next, &piece);) {
        const uint64_t first = model->groups[p->group].first + piece.offset;
        ROTA_TRY(rota_buffer_write(model->parts[part], model->device, first * 4, values + piece.first,
                                   piece.count * 4, NULL));
        if (part == GPT_VALUES && model->copies)
            ROTA_TRY(gpt_model_write_copies(model, first, values + piece.first, piece.count));
    }
    return ROTA_OK;
}

rota_status gpt_groups_read(const gpt_model *model, const gpt_parameter *p, int part, float *out_values) {
    rota_shard_piece piece;
    for (uint32_t next = 0; next_piece(model, p, &next, &piece);)
        ROTA_TRY(rota_buffer_read(model->parts[part], (model->groups[p->group].first + piece.offset) * 4,
                                  out_values + piece.first, piece.count * 4));
    return ROTA_OK;
}

/* ---- Recording ---- */

void gpt_group_name(uint32_t group, char out[GPT_GROUP_NAME]) {
    if (group == GPT_GROUP_ENDS)
        snprintf(out, GPT_GROUP_NAME, "weights of tables and last norm");
    else
        snprintf(out, GPT_GROUP_NAME, "weights of layer %" PRIu32, group - 1);
}

rota_status gpt_group_tensor(const gpt_group *group, rota_buffer *buffer, rota_dtype dtype,
                             rota_tensor *out) {
    return rota_tensor_of(buffer, group->first * rota_dtype_bytes(dtype), dtype,
                          ROTA_SHAPE(rota_sharding_elements(group->sharding)), out);
}

uint64_t gpt_group_decayed(const gpt_model *model, const gpt_group *group) {
    const rota_shard_piece *pieces;
    uint32_t count = 0;
    uint64_t end = 0;
    if (rota_sharding_get_pieces(group->sharding, &pieces, &count) != ROTA_OK) return 0;
    for (uint32_t i = 0; i < count; i++)
        if (model->parameters[group->members[pieces[i].parameter]].rank == 2)
            end = pieces[i].offset + pieces[i].count;
    return end;
}

rota_status gpt_groups_fetch(gpt_recording *r, uint32_t group) {
    const gpt_model *model = r->plan->model;
    rota_tensor shard, whole[GPT_GROUP_MOST];
    char name[GPT_GROUP_NAME];
    if (!model->groups) return ROTA_OK;
    const gpt_group *g = &model->groups[group];
    const bool once = model->config.gathers_once;
    if (once && r->weights[model->parameters[g->members[0]].index].buffer) return ROTA_OK;
    gpt_group_name(group, name);
    ROTA_TRY(gpt_record_part(r, name));
    ROTA_TRY(gpt_group_tensor(g, r->dtype == ROTA_F32 ? model->parts[GPT_VALUES] : model->copies, r->dtype,
                              &shard));
    ROTA_TRY(
        rota_sharding_unshard(g->sharding, r->tape, shard, &ROTA_UNSHARD(.keep = once), g->count, whole));
    for (uint32_t i = 0; i < g->count; i++) {
        const gpt_parameter *p = &model->parameters[g->members[i]];
        r->weights[p->index] = whole[i];
        if (p->index != GPT_TOKENS) continue;
        r->table = whole[i];
        ROTA_TRY(rota_tensor_slice(&whole[i], 0, 0, p->shape[0], &r->weights[GPT_TOKENS]));
    }
    return ROTA_OK;
}

rota_status gpt_groups_fetch_all(gpt_recording *r) {
    const gpt_model *model = r->plan->model;
    if (!gpt_groups_add_whole(r)) return ROTA_OK;
    rota_tape_remember(r->tape, false); /* gradients are those of what was gathered */
    for (uint32_t i = 0; i < model->group_count; i++) ROTA_TRY(gpt_groups_fetch(r, i));
    rota_tape_remember(r->tape, true);
    return ROTA_OK;
}

bool gpt_groups_add_whole(const gpt_recording *r) {
    const gpt_model *model = r->plan->model;
    return model->groups && model->config.gathers_once && r->plan->micro_batches > 1;
}
