/* Segments whose commands the host goes on with (vk_run.c) are recorded in pieces, a command buffer each:
 *
 *     commands | loop | commands | loop | commands
 *     leads[0]  runs[0] leads[1]  runs[1] leads[2]
 *
 * A run is a number of turns of its command (vk_turns.c) and their end. All that tells one run from the next is in the
 * words of the command (vk_decide.h), so there is one buffer, which may be in flight several times, one behind the
 * other. Pieces are parted by barriers for all that came before on the queue, runs by one for dispatches, which is all
 * that they have; and each ends with one for the host, which looks at the words and may read what it wrote. */
#include "exec/vk/vk_pieces.h"

#include <stdlib.h>
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_record.h"
#include "exec/vk/vk_recording.h"

static rota_status make(const rota_vk_recorded *recorded, uint32_t index, rota_vk_pieces **out_pieces) {
    const rota_vk_decisions_of *decisions = &recorded->program->decisions;
    const rota_exec_segment *segment = &recorded->program->desc->segments[index];
    const uint32_t first = decisions->first[index], last = decisions->first[index + 1];
    uint32_t count = 0;
    for (uint32_t i = first; i < last; i++) count += decisions->list[i].goes_on;
    if (count == 0) return ROTA_OK;
    rota_vk_pieces *pieces = *out_pieces = calloc(1, sizeof *pieces);
    if (pieces) {
        pieces->decisions = calloc(count, sizeof *pieces->decisions);
        pieces->runs = calloc(count, sizeof(VkCommandBuffer));
        pieces->leads = calloc(count + (size_t)1, sizeof(VkCommandBuffer));
    }
    if (!pieces || !pieces->decisions || !pieces->runs || !pieces->leads)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for a segment in %u pieces", 2 * count + 1);
    for (uint32_t i = first; i < last; i++)
        if (decisions->list[i].goes_on) pieces->decisions[pieces->count++] = &decisions->list[i];
    pieces->has_tail = recorded->queries || pieces->decisions[count - 1]->command + 1 !=
                                                segment->first_command + segment->command_count;
    return ROTA_OK;
}

rota_status rota_vk_pieces_create(rota_vk_recorded *recorded) {
    const rota_vk_program *program = recorded->program;
    if (!program->decisions.first) return ROTA_OK;
    recorded->pieces = calloc(program->desc->segment_count, sizeof(rota_vk_pieces *));
    if (!recorded->pieces)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for an instance of program '%s'",
                         program->desc->name);
    recorded->pieces_count = program->desc->segment_count;
    for (uint32_t s = 0; s < recorded->pieces_count; s++) ROTA_TRY(make(recorded, s, &recorded->pieces[s]));
    return ROTA_OK;
}

void rota_vk_pieces_free(rota_vk_recorded *recorded) {
    for (uint32_t s = 0; recorded->pieces && s < recorded->pieces_count; s++) {
        rota_vk_pieces *pieces = recorded->pieces[s];
        if (!pieces) continue;
        free(pieces->decisions);
        free(pieces->runs);
        free(pieces->leads);
        free(pieces);
    }
    free(recorded->pieces);
}

const rota_vk_pieces *rota_vk_pieces_of(const rota_vk_recorded *recorded, uint32_t segment) {
    return recorded->pieces ? recorded->pieces[segment] : NULL;
}

bool rota_vk_pieces_cuts(const rota_vk_recording *r, uint32_t command) {
    const uint32_t plus_1 = r->program->dispatches[command].decision_plus_1;
    return plus_1 && r->recorded->pieces && r->program->decisions.list[plus_1 - 1].goes_on;
}
