/* Which CPUs the interrupts of a PCI device keep busy, from the kernel's counts in sysfs. */
#include "exec/interrupts.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Interrupts that are moved from CPU to CPU would leave no CPU in the end. */
#define REMEMBERED_MAX 4

void rota_interrupts_open(rota_interrupts *interrupts, const char *device, const char *counts) {
    memset(interrupts, 0, sizeof *interrupts);
    char folder[256];
    if ((size_t)snprintf(folder, sizeof folder, "%s/msi_irqs", device) >= sizeof folder ||
        (size_t)snprintf(interrupts->counts, sizeof interrupts->counts, "%s", counts) >=
            sizeof interrupts->counts)
        return;
    DIR *list = opendir(folder);
    if (!list) return;
    for (struct dirent *entry; interrupts->count < ROTA_INTERRUPTS_MAX && (entry = readdir(list));) {
        char *end;
        unsigned long number = strtoul(entry->d_name, &end, 10);
        if (end != entry->d_name && *end == 0 && number <= UINT32_MAX)
            interrupts->numbers[interrupts->count++] = (uint32_t)number;
    }
    (void)closedir(list);
    if (interrupts->count) interrupts->seen = calloc(interrupts->count, CPU_SETSIZE * sizeof(uint32_t));
    if (!interrupts->seen) interrupts->count = 0;
}

void rota_interrupts_close(rota_interrupts *interrupts) {
    free(interrupts->seen);
    interrupts->seen = NULL;
    interrupts->count = 0;
}

/* Adds to `fresh`, a number a CPU, what interrupt `index` counted since the last look. */
static void read_counts(rota_interrupts *interrupts, uint32_t index, uint32_t *fresh) {
    char path[128], text[CPU_SETSIZE * 11 + 1]; /* "4294967295," a CPU */
    (void)snprintf(path, sizeof path, "%s/%u/per_cpu_count", interrupts->counts, interrupts->numbers[index]);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    ssize_t length = read(file, text, sizeof text - 1);
    (void)close(file);
    if (length <= 0) return;
    text[length] = 0;
    uint32_t *seen = interrupts->seen + (size_t)index * CPU_SETSIZE;
    const char *next = text;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char *end;
        uint32_t value = (uint32_t)strtoul(next, &end, 10);
        if (end == next) break;
        fresh[cpu] += value - seen[cpu]; /* the kernel's counts wrap */
        seen[cpu] = value;
        if (*end != ',') break;
        next = end + 1;
    }
}

bool rota_interrupts_look(rota_interrupts *interrupts, uint64_t now_ns) {
    if (interrupts->count == 0) return false;
    uint32_t fresh[CPU_SETSIZE] = {0};
    for (uint32_t i = 0; i < interrupts->count; i++) read_counts(interrupts, i, fresh);
    uint64_t before = interrupts->looked_ns;
    interrupts->looked_ns = now_ns;
    if (before == 0 || now_ns <= before) return false; /* the first look: counts since the machine's start */
    uint64_t enough = (now_ns - before) * ROTA_INTERRUPTS_BUSY_PER_S / 1000000000u + 1;
    cpu_set_t busy;
    CPU_ZERO(&busy);
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (fresh[cpu] >= enough) CPU_SET(cpu, &busy);
    /* What was busy may be so again. */
    cpu_set_t all;
    CPU_OR(&all, &busy, &interrupts->busy);
    if (CPU_EQUAL(&all, &interrupts->busy)) return false;
    interrupts->busy = CPU_COUNT(&all) <= REMEMBERED_MAX ? all : busy;
    return true;
}
