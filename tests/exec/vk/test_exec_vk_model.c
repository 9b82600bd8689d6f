/* exec/vk's queue protocol against a model that stands in for the driver's submission. */
#include "tests/exec/vk/exec_vk_kit.h"
#include "tests/kit/random.h"
#include <string.h>

#define MODEL_WORKS 600u
#define MODEL_REALS ROTA_VK_REALS_MAX

/* The driver of the model: believes nothing but what Vulkan says orders command buffers. */
typedef struct model {
    rota_vk_device *device;
    PFN_vkSignalSemaphore signal;
    uint64_t seed;
    uint64_t sequence[MODEL_REALS];  /* command buffers of works seen on each real queue */
    uint64_t signalled[MODEL_REALS]; /* last value handed to the driver */
    /* By kind (0 dispatch, 1 transfer): later works of a real queue come after these of another, of kind by
     * kind. */
    uint64_t after[MODEL_REALS][2][MODEL_REALS][2];
    uint64_t snapshot[MODEL_REALS][MODEL_WORKS + 1][2][MODEL_REALS]
                     [2];              /* `after` of each work, by its sequence */
    uint64_t pending[MODEL_REALS][64]; /* values to complete, in order */
    uint32_t pending_count[MODEL_REALS];
    uint32_t submits, barriers, semaphores;
} model;

static model *the_model;

static uint32_t real_of(VkSemaphore semaphore) {
    for (uint32_t r = 0; r < the_model->device->real_count; r++)
        if (the_model->device->reals[r].timeline == semaphore) return r;
    fail_msg("an unknown semaphore");
    return 0;
}

static void complete_one(uint32_t real) {
    model *m = the_model;
    if (m->pending_count[real] == 0) return;
    VkSemaphoreSignalInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
                                  .semaphore = m->device->reals[real].timeline,
                                  .value = m->pending[real][0]};
    assert_int_equal(m->signal(m->device->handle, &info), VK_SUCCESS);
    memmove(m->pending[real], m->pending[real] + 1, --m->pending_count[real] * sizeof m->pending[real][0]);
}

static bool is_barrier(uint32_t real, VkCommandBuffer buffer, uint32_t *out_from, uint32_t *out_to) {
    for (uint32_t k = 0; k < 16; k++)
        if (the_model->device->reals[real].barriers[k / 4][k % 4] == buffer) {
            *out_from = k / 4;
            *out_to = k % 4;
            return true;
        }
    return false;
}

static void model_info(uint32_t real, const VkSubmitInfo2 *info) {
    model *m = the_model;
    for (uint32_t i = 0; i < info->waitSemaphoreInfoCount; i++) {
        const VkSemaphoreSubmitInfo *wait = &info->pWaitSemaphoreInfos[i];
        uint32_t target = real_of(wait->semaphore);
        assert_true(wait->value <= m->signalled[target]); /* P2 */
        for (uint32_t k = 0; k < 4; k++)
            if (wait->value > m->after[real][k / 2][target][k % 2])
                m->after[real][k / 2][target][k % 2] = wait->value;
        m->semaphores++;
    }
    for (uint32_t i = 0; i < info->commandBufferInfoCount; i++) {
        uint32_t from = 0, to = 0;
        if (is_barrier(real, info->pCommandBufferInfos[i].commandBuffer, &from, &to)) {
            for (uint32_t k = 0; k < 4; k++)
                if ((to & (1u << k / 2)) && (from & (1u << k % 2)))
                    m->after[real][k / 2][real][k % 2] = m->sequence[real];
            m->barriers++;
            continue;
        }
        memcpy(m->snapshot[real][++m->sequence[real]], m->after[real], sizeof m->after[real]);
    }
    assert_int_equal(info->signalSemaphoreInfoCount, 1);
    assert_int_equal(real_of(info->pSignalSemaphoreInfos[0].semaphore), real);
    assert_int_equal(info->pSignalSemaphoreInfos[0].value, m->sequence[real]);
    assert_true(info->pSignalSemaphoreInfos[0].value > m->signalled[real]);
    m->signalled[real] = info->pSignalSemaphoreInfos[0].value;
    m->pending[real][m->pending_count[real]++] = m->signalled[real];
}

static VKAPI_ATTR VkResult VKAPI_CALL model_submit(VkQueue queue, uint32_t count, const VkSubmitInfo2 *infos,
                                                   VkFence fence) {
    (void)queue, (void)fence;
    model *m = the_model;
    /* Both real queues may be one VkQueue here: the signals tell them apart. */
    uint32_t real = real_of(infos[0].pSignalSemaphoreInfos[0].semaphore);
    m->submits++;
    for (uint32_t i = 0; i < count; i++) model_info(real, &infos[i]);
    for (uint32_t r = 0; r < m->device->real_count; r++) {
        while (m->pending_count[r] > 8) complete_one(r); /* few enough that submit finds room */
        if (test_random(&m->seed) % 2) complete_one(r);
    }
    return VK_SUCCESS;
}

/* Random works with random waits on random queues: every wait of a work, and of the works before it on its
 * logical queue, holds by barriers and semaphore waits alone. */
static void test_model(void **state) {
    rota_vk_test_options test = {.split_transfer = *state != NULL};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        /* Without the validation layer, which would wait for submissions that it never sees. */
        fixture *f =
            open_as(&(rota_exec_open_options){.test = &test, .max_in_flight = 16 + (uint32_t)seed}, false);
        rota_vk_device *device = (rota_vk_device *)f->device;
        model *m = the_model = calloc(1, sizeof *m);
        assert_non_null(m);
        m->device = device;
        m->seed = seed;
        m->signal =
            (PFN_vkSignalSemaphore)device->instance.vk.GetDeviceProcAddr(device->handle, "vkSignalSemaphore");
        device->vk.QueueSubmit2 = model_submit;
        rota_exec_memory *memories[] = {memory(f, 2 * BYTES, ROTA_EXEC_MEMORY_DEVICE)};
        contract_step_params params = {COUNT, 1, 0};
        test_program *p = test_program_new(QUEUES, 1, 0);
        for (uint32_t queue = 0; queue <= QUEUES; queue++) { /* the last: a copy for the transfer queue */
            test_program_segment(p, queue < QUEUES ? queue : QUEUES - 1);
            test_program_batch(p);
            if (queue < QUEUES)
                test_program_kernel(p, &step, &params);
            else
                test_program_copy(p);
            test_program_operand(p, 0, false, 0, BYTES, ROTA_READWRITE);
            test_program_operand(p, 0, false, BYTES, BYTES, ROTA_READ);
        }
        loaded l = load(f, p, memories);
        static rota_exec_wait waits[MODEL_WORKS][2];
        static rota_exec_work works[MODEL_WORKS];
        static uint8_t kinds_of[QUEUES][MODEL_WORKS]; /* 1: the copy */
        for (uint32_t i = 0; i < MODEL_WORKS; i++) {
            uint32_t segment = (uint32_t)(test_random(&m->seed) % (QUEUES + 1));
            uint32_t queue = segment < QUEUES ? segment : QUEUES - 1;
            uint32_t wait_count = (uint32_t)(test_random(&m->seed) % 3);
            for (uint32_t w = 0; w < wait_count; w++) {
                uint32_t on = (uint32_t)(test_random(&m->seed) % QUEUES);
                /* Mostly the newest value, sometimes any. */
                uint64_t newest = f->next[on], value = newest;
                if (newest && test_random(&m->seed) % 3 == 0) value = test_random(&m->seed) % (newest + 1);
                waits[i][w] = (rota_exec_wait){.queue = on, .value = value};
            }
            works[i] = work(f, l, segment, queue, waits[i], wait_count, NULL);
            kinds_of[queue][works[i].signal_value - 1] = segment == QUEUES;
        }
        for (uint32_t sent = 0; sent < MODEL_WORKS;) {
            uint32_t count = 1 + (uint32_t)(test_random(&m->seed) % 12);
            if (count > MODEL_WORKS - sent) count = MODEL_WORKS - sent;
            submit(f, works + sent, count);
            sent += count;
        }
        for (uint32_t r = 0; r < device->real_count; r++)
            while (m->pending_count[r]) complete_one(r);
        for (uint32_t q = 0; q < QUEUES; q++) wait_for(f, q);
        /* Judge. */
        uint64_t waited[QUEUES][QUEUES] = {{0}};
        for (uint32_t i = 0; i < MODEL_WORKS; i++) {
            uint32_t queue = works[i].queue;
            for (uint32_t w = 0; w < works[i].wait_count; w++)
                if (waits[i][w].value > waited[queue][waits[i][w].queue])
                    waited[queue][waits[i][w].queue] = waits[i][w].value;
            const rota_vk_point *own = &device->logical[queue].points[works[i].signal_value - 1];
            for (uint32_t on = 0; on < QUEUES; on++)
                for (uint64_t value = 1; value <= waited[queue][on]; value++) {
                    const rota_vk_point *before = &device->logical[on].points[value - 1];
                    uint32_t kind = works[i].segment == QUEUES;
                    uint32_t before_kind = kinds_of[on][value - 1];
                    if (m->snapshot[own->real][own->sequence][kind][before->real][before_kind] <
                        before->sequence)
                        fail_msg(
                            "seed %llu: work %u of queue %u runs without waiting for value %llu of queue %u",
                            (unsigned long long)seed, i, queue, (unsigned long long)value, on);
                }
        }
        assert_true(m->submits < MODEL_WORKS && m->barriers > 0 && m->semaphores > 0);
        unload(f, l);
        free(p);
        close_quiet(f, false);
        free(m);
    }
}

int main(void) {
    static int split;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),
        cmocka_unit_test_prestate(test_model, &split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
