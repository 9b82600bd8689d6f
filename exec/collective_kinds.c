/* Names and sizes of what collectives are made of, from their lists. */
#include "exec/collective_kinds.h"

#define NAME_KIND(name, text) text,
#define NAME_TYPE(name, text, bytes) text,
#define BYTES_TYPE(name, text, bytes) bytes,
static const char *const kinds[] = {ROTA_COLLECTIVE_KINDS(NAME_KIND)};
static const char *const types[] = {ROTA_COLLECTIVE_TYPES(NAME_TYPE)};
static const uint32_t type_bytes[] = {ROTA_COLLECTIVE_TYPES(BYTES_TYPE)};
static const char *const reductions[] = {ROTA_COLLECTIVE_REDUCTIONS(NAME_KIND)};

const char *rota_collective_kind_text(rota_collective_kind kind) {
    return (unsigned)kind < ROTA_COLLECTIVE_KIND_COUNT ? kinds[kind] : "unknown";
}
const char *rota_collective_type_text(rota_collective_type type) {
    return (unsigned)type < ROTA_COLLECTIVE_TYPE_COUNT ? types[type] : "unknown";
}
const char *rota_collective_reduction_text(rota_collective_reduction reduction) {
    return (unsigned)reduction < ROTA_COLLECTIVE_REDUCTION_COUNT ? reductions[reduction] : "unknown";
}
uint32_t rota_collective_type_bytes(rota_collective_type type) {
    return (unsigned)type < ROTA_COLLECTIVE_TYPE_COUNT ? type_bytes[type] : 0;
}
