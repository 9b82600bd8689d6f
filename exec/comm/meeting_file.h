/* The file by which ranks meet: see meeting_file.c. Internal to exec/comm. */
#ifndef ROTA_EXEC_COMM_MEETING_FILE_H
#define ROTA_EXEC_COMM_MEETING_FILE_H

#include "base/status.h"
#include "exec/comm/sockets.h"

/* By rank 0 of the communicator of that name: all addresses of this host, with the port. SYSTEM. */
rota_status rota_meeting_file_write(const char *path, uint64_t key, uint32_t port, const char *name);
/* What rank 0 has written, `most` addresses at the most. Returns how many; 0: nothing yet. */
uint32_t rota_meeting_file_read(const char *path, uint32_t most, uint64_t *out_key,
                                rota_socket_address *out_addresses);
/* Once ranks have met, or not. It stays where another job has written it since. */
void rota_meeting_file_remove(const char *path, uint64_t key);

#endif
