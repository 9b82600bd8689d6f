/* Items of the CPU executor's kernels: how they are cut in pieces, and how many there may be. */
#include "tests/exec/cpu/exec_cpu_kit.h"

/* A kernel whose number of items is a parameter: it notes pieces that do not start and end at multiples of
 * its grain. */
enum { PIECE_GRAIN = 1000 };

typedef struct piece_notes {
    _Atomic uint64_t items, pieces, crooked;
} piece_notes;

static rota_status note_piece(const rota_kernel_call *call) {
    piece_notes *notes = call->operands[0];
    if (call->begin % PIECE_GRAIN != 0 || (call->end % PIECE_GRAIN != 0 && call->end != call->items))
        ra_fetch_add_relaxed(&notes->crooked, 1);
    ra_fetch_add_relaxed(&notes->pieces, 1);
    ra_fetch_add_relaxed(&notes->items, call->end - call->begin);
    return ROTA_OK;
}

static void piece_items(const void *params, const uint64_t *bytes, uint64_t *out_items, uint64_t *out_grain) {
    (void)bytes;
    uint32_t count;
    memcpy(&count, params, sizeof count);
    *out_items = count;
    *out_grain = PIECE_GRAIN;
}

static const rota_kernel_bindable count_bindable = {.name = "count", .size_bytes = 4};
static const rota_kernel piece_kernel = {.name = "pieces",
                                         .param_bytes = 4,
                                         .bindables = &count_bindable,
                                         .bindable_count = 1,
                                         .cpu = {note_piece, piece_items}};

static void pieces_are_multiples_of_the_grain(void **state) {
    (void)state;
    for (uint32_t bound = 0; bound < 2; bound++) {
        kit_host host;
        rota_exec_device *device = kit_open(&host, 4, 1, false);
        rota_exec_memory *memory;
        assert_ok(device->vtable->memory_create(device, sizeof(piece_notes), 0, "notes", &memory));
        piece_notes *notes = memory->host;
        memset(notes, 0, sizeof *notes);
        kit_program *p = kit_begin(1, 1, 1);
        uint32_t recorded = 1000003;
        rota_exec_operand operand = kit_at(0, 0, sizeof(piece_notes), ROTA_READWRITE);
        rota_exec_command *command = kit_kernel(p, &piece_kernel, &recorded, 1, &operand);
        if (bound) {
            p->bindings[p->binding_count++] = (rota_exec_binding){0, 0};
            command->binding_count = 1;
        }
        rota_exec_program *program;
        rota_exec_instance *instance;
        assert_ok(device->vtable->program_create(device, kit_finish(p, 0), &program));
        assert_ok(device->vtable->instance_create(device, program, &memory, &instance));
        uint64_t block = bound ? 700001 : 0;
        kit_submit(device, instance, 0, 1, &block, 0, NULL);
        kit_wait(&host, 0, 1);
        assert_int_equal(notes->items, bound ? 700001 : 1000003);
        assert_int_equal(notes->crooked, 0);
        assert_true(notes->pieces > 1);
        device->vtable->instance_destroy(device, instance);
        device->vtable->program_destroy(device, program);
        device->vtable->memory_destroy(device, memory);
        kit_close(device);
        kit_free(p);
    }
}

/* A kernel of any number of items, which counts its pieces and runs none of them. */
static _Atomic uint64_t endless_pieces, endless_items;

static rota_status count_piece(const rota_kernel_call *call) {
    ra_fetch_add_relaxed(&endless_pieces, 1);
    ra_fetch_add_relaxed(&endless_items, call->end - call->begin);
    return ROTA_OK;
}

static void many_items(const void *params, const uint64_t *bytes, uint64_t *out_items, uint64_t *out_grain) {
    (void)bytes;
    uint64_t given[2];
    memcpy(given, params, sizeof given);
    *out_items = given[0];
    *out_grain = given[1];
}

static const rota_kernel_bindable many_bindable = {.name = "items", .size_bytes = 8};
static const rota_kernel many_kernel = {.name = "many",
                                        .param_bytes = 16,
                                        .bindables = &many_bindable,
                                        .bindable_count = 1,
                                        .cpu = {count_piece, many_items}};

/* As many items as there may be are each run once; more are refused, recorded or in a slot, and not run in
 * pieces without end. */
static void too_many_items_are_refused(void **state) {
    (void)state;
    const uint64_t most = (uint64_t)1 << 60;
    static const uint64_t grains[] = {1, 1000, (uint64_t)1 << 59, UINT64_MAX};
    const uint64_t counts[] = {0, 1, 12345, most, most + 1, UINT64_MAX - 2000, UINT64_MAX};
    for (uint32_t workers = 1; workers <= 4; workers += 3)
        for (uint32_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (uint32_t g = 0; g < sizeof grains / sizeof *grains; g++)
                for (uint32_t bound = 0; bound < 2; bound++) {
                    kit_host host;
                    rota_exec_device *device = kit_open(&host, workers, 1, g % 2);
                    rota_exec_memory *memory;
                    assert_ok(device->vtable->memory_create(device, 64, 0, "m", &memory));
                    kit_program *p = kit_begin(1, 1, 1);
                    /* Recorded as a kernel that is split, or (bound, grain 2^64 - 1) as one that is not. */
                    const uint64_t recorded[2] = {bound ? most / 2 : counts[c], grains[g]};
                    rota_exec_operand operand = kit_at(0, 0, 64, ROTA_READWRITE);
                    rota_exec_command *command = kit_kernel(p, &many_kernel, recorded, 1, &operand);
                    if (bound) {
                        p->bindings[p->binding_count++] = (rota_exec_binding){0, 0};
                        command->binding_count = 1;
                    }
                    rota_exec_program *program;
                    rota_exec_instance *instance;
                    ra_store_relaxed(&endless_pieces, 0);
                    ra_store_relaxed(&endless_items, 0);
                    const rota_status status =
                        device->vtable->program_create(device, kit_finish(p, 0), &program);
                    if (!bound && counts[c] > most) {
                        assert_status(status, ROTA_OUT_OF_RANGE);
                        assert_non_null(strstr(rota_last_error(), "at most 1152921504606846976"));
                    } else {
                        assert_ok(status);
                        assert_ok(device->vtable->instance_create(device, program, &memory, &instance));
                        kit_submit(device, instance, 0, 1, &counts[c], 0, NULL);
                        kit_wait(&host, 0, 1);
                        const bool refused = counts[c] > most;
                        assert_int_equal(ra_load_acquire(&host.failures), refused);
                        if (refused) assert_non_null(strstr(host.message, "many: 1"));
                        assert_int_equal(ra_load_relaxed(&endless_items), refused ? 0 : counts[c]);
                        assert_true(ra_load_relaxed(&endless_pieces) <= 4 * 4 + 1);
                        device->vtable->instance_destroy(device, instance);
                        device->vtable->program_destroy(device, program);
                    }
                    device->vtable->memory_destroy(device, memory);
                    kit_close(device);
                    kit_free(p);
                }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_multiples_of_the_grain),
        cmocka_unit_test(too_many_items_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
