/* What launchers other than mpirun say to the processes that they start, by their environment.
 *
 *   torchrun   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and TORCHELASTIC_RUN_ID where it is torchrun itself
 *   srun       SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST, SLURM_JOB_ID, SLURM_STEP_ID
 *
 * MASTER_PORT is PyTorch's: its store listens there, in rank 0 or in torchrun itself. So rank 0 takes the first port
 * behind it that is free, and the others look there. Slurm names no port: it is found by the job's number. In both
 * cases a number of the job's keeps apart two of them that look at the same ports. */
#include "exec/comm/launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum {
    PORTS = 16,          /* that are looked at */
    SLURM_FIRST = 20000, /* below those that systems give out by themselves */
    SLURM_PORTS = 10000
};

/* ---- An address ---- */

static bool take_number(const char *text, uint64_t most, uint64_t *out_number) {
    char *end = NULL;
    if (!text || *text < '0' || *text > '9') return false;
    const unsigned long long number = strtoull(text, &end, 10);
    *out_number = number;
    return *end == 0 && number <= most;
}

static rota_status fail_address(const char *address) {
    return rota_fail(
        ROTA_INVALID_ARGUMENT,
        "ranks can't meet at '%s', expected \"host:port\" of rank 0, with a port of 1 to 65535, or "
        "\"file:PATH\"",
        address);
}

rota_status rota_meeting_at(const char *address, uint32_t rank, uint32_t size, rota_meeting *out_meeting) {
    *out_meeting = (rota_meeting){.rank = rank, .size = size, .port_count = 1};
    if (size == 0 || rank >= size)
        return rota_fail(ROTA_INVALID_ARGUMENT, "rank %u of %u at '%s', expected a rank below the size", rank,
                         size, address);
    if (strncmp(address, "file:", 5) == 0) {
        const int length = snprintf(out_meeting->path, sizeof out_meeting->path, "%s", address + 5);
        return length > 0 && (size_t)length < sizeof out_meeting->path ? ROTA_OK : fail_address(address);
    }
    const char *colon = strrchr(address, ':'), *host = address;
    uint64_t port = 0;
    if (!colon || !take_number(colon + 1, 65535, &port) || port == 0) return fail_address(address);
    size_t length = (size_t)(colon - address);
    if (length > 2 && host[0] == '[' && host[length - 1] == ']') {
        host++;
        length -= 2;
    } else if (memchr(host, ':', length) || memchr(host, '[', length)) {
        return fail_address(address); /* of IPv6 it may be the last part */
    }
    if (length == 0 || length >= sizeof out_meeting->host) return fail_address(address);
    memcpy(out_meeting->host, host, length);
    out_meeting->first_port = (uint32_t)port;
    return ROTA_OK;
}

void rota_meeting_describe(const rota_meeting *m, char *out_text, uint64_t capacity) {
    const bool is_bare = !strchr(m->host, ':');
    if (m->path[0])
        (void)snprintf(out_text, capacity, "file:%s", m->path);
    else if (m->port_count > 1)
        (void)snprintf(out_text, capacity, is_bare ? "%s:%u to %u" : "[%s]:%u to %u", m->host, m->first_port,
                       m->first_port + m->port_count - 1);
    else
        (void)snprintf(out_text, capacity, is_bare ? "%s:%u" : "[%s]:%u", m->host, m->first_port);
}

/* ---- Launchers ---- */

static uint64_t mix(uint64_t key, const char *text) {
    return rota_hash_byte(text ? rota_hash_text(key, text) : key, 0xff);
}

static uint32_t count_in(const char *variable) {
    uint64_t count = 0;
    return take_number(getenv(variable), UINT32_MAX, &count) ? (uint32_t)count : 0;
}

static bool is_set(const char *variable) {
    const char *text = getenv(variable);
    return text && *text;
}

/* WORLD_SIZE alone may be anybody's. */
static bool is_torchrun(void) {
    return is_set("TORCHELASTIC_RUN_ID") ||
           (is_set("RANK") && is_set("WORLD_SIZE") && is_set("MASTER_ADDR") && is_set("MASTER_PORT"));
}

const char *rota_meeting_launcher(uint32_t *out_ranks) {
    if (is_torchrun() && (*out_ranks = count_in("WORLD_SIZE")) > 1) return "torchrun";
    /* Of a step of srun's alone: a batch script has the job's SLURM_NTASKS, and is one process. */
    if ((*out_ranks = count_in("SLURM_STEP_NUM_TASKS")) > 1) return "srun";
    return NULL;
}

bool rota_meeting_is_within_srun(void) {
    return is_torchrun() && is_set("SLURM_PROCID") && !is_set("OMPI_COMM_WORLD_SIZE");
}

static rota_status take_variable(const char *launcher, const char *variable, uint64_t most,
                                 uint32_t *out_number) {
    const char *text = getenv(variable);
    uint64_t number = 0;
    if (!text)
        return rota_fail(ROTA_INVALID_ARGUMENT, "this is a rank that %s started, but %s is not set", launcher,
                         variable);
    if (!take_number(text, most, &number))
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "this is a rank that %s started, but %s is '%s', expected a number of %" PRIu64
                         " at the most",
                         launcher, variable, text, most);
    *out_number = (uint32_t)number;
    return ROTA_OK;
}

static rota_status check_rank(const rota_meeting *m, const char *rank, const char *size) {
    if (m->rank < m->size) return ROTA_OK;
    return rota_fail(ROTA_INVALID_ARGUMENT,
                     "%s started this as rank %u of %u (%s, %s), expected a rank below that", m->launcher,
                     m->rank, m->size, rank, size);
}

static rota_status set_host(rota_meeting *m, const char *variable, const char *host, size_t length) {
    if (length == 0 || length >= sizeof m->host)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "this is a rank that %s started, but %s is %s, expected the name of rank 0's host",
                         m->launcher, variable, host ? "empty or too long" : "not set");
    memcpy(m->host, host, length);
    m->host[length] = 0;
    return ROTA_OK;
}

static rota_status meet_by_torchrun(rota_meeting *m) {
    uint32_t port = 0;
    m->launcher = "torchrun";
    ROTA_TRY(take_variable("torchrun", "RANK", UINT32_MAX - 1, &m->rank));
    ROTA_TRY(take_variable("torchrun", "WORLD_SIZE", UINT32_MAX, &m->size));
    ROTA_TRY(take_variable("torchrun", "MASTER_PORT", 65535 - PORTS, &port));
    ROTA_TRY(check_rank(m, "RANK", "WORLD_SIZE"));
    const char *host = getenv("MASTER_ADDR");
    ROTA_TRY(set_host(m, "MASTER_ADDR", host, host ? strlen(host) : 0));
    m->first_port = port + 1;
    /* Not how often it was begun anew, which each host's torchrun counts for itself. */
    m->key = mix(mix(ROTA_HASH_BEGIN, getenv("TORCHELASTIC_RUN_ID")), getenv("MASTER_PORT"));
    return ROTA_OK;
}

/* The first host of "node[003-010,12],other" and the like. */
static rota_status take_first_host(rota_meeting *m, const char *variable) {
    const char *list = getenv(variable);
    const size_t length = list ? strcspn(list, ",[") : 0;
    if (!list || list[length] != '[') return set_host(m, variable, list, length);
    const char *number = list + length + 1, *rest = strchr(number, ']');
    const size_t digits = strspn(number, "0123456789");
    const size_t behind = rest ? strcspn(rest + 1, ",") : 0;
    char host[sizeof m->host];
    const int size = snprintf(host, sizeof host, "%.*s%.*s%.*s", (int)length, list, (int)digits, number,
                              (int)behind, rest ? rest + 1 : "");
    const bool is_plain = digits > 0 && rest && !memchr(rest + 1, '[', behind);
    return set_host(m, variable, host, is_plain && size > 0 ? (size_t)size : 0);
}

static rota_status meet_by_slurm(rota_meeting *m) {
    m->launcher = "srun";
    ROTA_TRY(take_variable("srun", "SLURM_PROCID", UINT32_MAX - 1, &m->rank));
    ROTA_TRY(take_variable("srun", "SLURM_STEP_NUM_TASKS", UINT32_MAX, &m->size));
    ROTA_TRY(check_rank(m, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"));
    ROTA_TRY(
        take_first_host(m, is_set("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST"));
    m->key = mix(mix(ROTA_HASH_BEGIN, getenv("SLURM_JOB_ID")), getenv("SLURM_STEP_ID"));
    m->first_port = SLURM_FIRST + (uint32_t)(m->key % (SLURM_PORTS / PORTS)) * PORTS;
    return ROTA_OK;
}

rota_status rota_meeting_of_launcher(rota_meeting *out_meeting) {
    *out_meeting = (rota_meeting){.port_count = PORTS};
    if (is_torchrun()) return meet_by_torchrun(out_meeting);
    if (is_set("SLURM_STEP_NUM_TASKS")) return meet_by_slurm(out_meeting);
    return rota_fail(
        ROTA_INVALID_ARGUMENT,
        "ranks of transport \"tcp\" need an address with rank and size, or torchrun's RANK, WORLD_SIZE, "
        "MASTER_ADDR and MASTER_PORT, or srun");
}
