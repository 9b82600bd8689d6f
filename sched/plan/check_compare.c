/* Whether a kernel did what it declares: compares its two runs (check.h). */
#include "sched/plan/check_compare.h"

#include <string.h>

/* The first byte of [from, to) that is not the pattern's; `to`: none. */
static uint64_t first_other(const uint8_t *bytes, uint64_t from, uint64_t to, uint32_t pattern) {
    const uint8_t byte = (uint8_t)pattern;
    while (from < to && bytes[from] == byte) from++;
    return from;
}

static rota_status found(const rota_check *check, const rota_check_operand *operand, const char *what,
                         uint64_t byte, const char *remedy) {
    return rota_fail(
        ROTA_NODE_FAILED,
        "check_kernels: kernel '%s', operand %u (%s, %llu bytes of buffer '%s' from byte %llu): %s %llu%s",
        check->kernel->name, operand->number, rota_access_mode_name(operand->mode),
        (unsigned long long)operand->size_bytes, operand->buffer, (unsigned long long)operand->offset_bytes,
        what, (unsigned long long)byte, remedy);
}

/* The bands around an operand. */
static rota_status check_bands(const rota_check *check, const rota_check_operand *operand,
                               const uint8_t *bytes, uint64_t shadow_bytes, uint32_t pattern) {
    const uint64_t lead = operand->lead_bytes, end = lead + operand->size_bytes;
    const uint64_t after = first_other(bytes, end, shadow_bytes, pattern);
    if (after < shadow_bytes)
        return found(check, operand, "it wrote past the end, at byte", after - lead,
                     "; bound its index, or declare an access as large as what it writes");
    uint64_t before = lead;
    for (uint64_t i = 0; i < lead; i++)
        if (bytes[i] != (uint8_t)pattern) before = i;
    if (before < lead)
        return found(check, operand, "it wrote before the beginning, by bytes", lead - before,
                     "; bound its index, or declare an access that begins there");
    return ROTA_OK;
}

static rota_status check_read(const rota_check *check, const rota_check_operand *operand,
                              const uint8_t *shadow, const uint8_t *original) {
    const uint8_t *bytes = shadow + operand->lead_bytes;
    if (memcmp(bytes, original, operand->size_bytes) == 0) return ROTA_OK;
    uint64_t i = 0;
    while (bytes[i] == original[i]) i++;
    return found(check, operand, "it changed byte", i, "; declare READWRITE, or leave it as it is");
}

/* Bytes that keep the pattern in both runs were left. One that differs otherwise was made of what lay
 * somewhere before, which says more: bytes of such a sum may look as if they were left. */
static rota_status check_written(const rota_check *check, const rota_check_operand *operand, const uint8_t *a,
                                 const uint8_t *b) {
    const uint64_t size = operand->size_bytes;
    const bool is_write = operand->mode == ROTA_WRITE, is_pure = check->kernel->flags & ROTA_KERNEL_PURE;
    uint64_t left = size, differs = size;
    a += operand->lead_bytes, b += operand->lead_bytes;
    if (memcmp(a, b, size) == 0) return ROTA_OK;
    for (uint64_t i = size; i-- > 0;) {
        if (a[i] == b[i]) continue;
        if (is_write && a[i] == (uint8_t)ROTA_CHECK_PATTERN_A && b[i] == (uint8_t)ROTA_CHECK_PATTERN_B)
            left = i;
        else
            differs = i;
    }
    if (is_pure && differs < size)
        return found(
            check, operand, "two runs on the same inputs differ, first at byte", differs,
            "; it reads what it declares WRITE, or bytes outside of its operands: declare what it reads; "
            "where "
            "its result depends on more than operands and parameters, ROTA_KERNEL_PURE is not true of it");
    if (left < size)
        return found(check, operand, "it left byte", left,
                     " unwritten; WRITE means every byte: write it (do the workgroups times their size cover "
                     "it?), or declare READWRITE");
    return ROTA_OK;
}

rota_status rota_check_compare(void *user, void *const *operands, const uint64_t *operand_bytes,
                               uint32_t operand_count) {
    const rota_check *check = user;
    (void)operand_count;
    /* Bytes outside come first: what else is wrong may follow from them. */
    for (uint32_t i = 0; i < check->count; i++) {
        const rota_check_operand *operand = &check->operands[i];
        ROTA_TRY(check_bands(check, operand, operands[operand->first], operand_bytes[operand->first],
                             ROTA_CHECK_PATTERN_A));
        ROTA_TRY(check_bands(check, operand, operands[operand->second], operand_bytes[operand->second],
                             ROTA_CHECK_PATTERN_B));
    }
    for (uint32_t i = 0; i < check->count; i++) {
        const rota_check_operand *operand = &check->operands[i];
        if (operand->is_scratch) continue;
        if (operand->mode != ROTA_READ) {
            ROTA_TRY(check_written(check, operand, operands[operand->first], operands[operand->second]));
            continue;
        }
        ROTA_TRY(check_read(check, operand, operands[operand->first], operands[operand->original]));
        ROTA_TRY(check_read(check, operand, operands[operand->second], operands[operand->original]));
    }
    return ROTA_OK;
}
