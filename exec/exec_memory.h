/* Memory of a device, as the executor contract has it (exec.h). Internal; not installed. */
#ifndef ROTA_EXEC_EXEC_MEMORY_H
#define ROTA_EXEC_EXEC_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rota_exec_memory rota_exec_memory;

typedef enum rota_exec_memory_flags {
    ROTA_EXEC_MEMORY_DEVICE = 0,
    ROTA_EXEC_MEMORY_HOST_WRITE =
        1u << 0, /* mapped, for the host to write and the device to read (upload staging) */
    ROTA_EXEC_MEMORY_HOST_READ = 1u << 1, /* mapped and cached, for the host to read (read-back staging) */
    ROTA_EXEC_MEMORY_SHARED = 1u << 2     /* other devices of the GPU may import it; alone, and only where
                                             caps.shares_memory */
} rota_exec_memory_flags;

/* An executor's memory object starts with this. Address and size never change (P5). */
struct rota_exec_memory {
    uint64_t
        address; /* device address; on the CPU executor the pointer. Aligned to ROTA_BUFFER_ALIGNMENT, but
                         of what was adopted */
    void *host;  /* mapped pointer, coherent; NULL if not mapped */
    uint64_t size_bytes;
};

/* A memory as another device of the same GPU takes it over: an opaque file descriptor of the allocation that
 * it lies in, or a dma-buf of that. An import ends before the memory that it is of, unless its device is lost:
 * what that may still touch is kept. */
typedef struct rota_exec_export {
    int fd;                    /* the caller's to close; an import leaves it as it is */
    uint64_t allocation_bytes; /* of all that the descriptor stands for */
    uint64_t offset_bytes;     /* of the memory in it */
    uint64_t size_bytes;
    uint32_t memory_type; /* Vulkan's index; of another driver's: 0 */
    bool is_dma_buf;
} rota_exec_export;

/* Memory of the application's, which a device takes over as it is: what kind, and where. */
typedef enum rota_exec_foreign_kind {
    ROTA_EXEC_FOREIGN_HOST,
    ROTA_EXEC_FOREIGN_DEVICE,
    ROTA_EXEC_FOREIGN_FD,
    ROTA_EXEC_FOREIGN_DMA_BUF
} rota_exec_foreign_kind;

typedef struct rota_exec_foreign {
    rota_exec_foreign_kind kind;
    void *memory; /* NULL for a descriptor, of which the next three are */
    int fd;
    uint64_t allocation_bytes, offset_bytes;
    uint64_t size_bytes;
    bool is_read_only; /* nothing writes there: who maps it needs no more than to read */
} rota_exec_foreign;

#endif
