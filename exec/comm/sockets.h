/* What ranks that meet need of sockets, each call of which ends by its deadline. Internal to exec/comm. */
#ifndef ROTA_EXEC_COMM_SOCKETS_H
#define ROTA_EXEC_COMM_SOCKETS_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* An address of a host and a port there, as ranks tell each other. */
typedef struct rota_socket_address {
    uint32_t family, port; /* AF_INET, AF_INET6, as this system numbers them; 0: none */
    uint8_t bytes[16];
} rota_socket_address;

/* False, with errno: not by the deadline (ETIMEDOUT), or the other end has ended it (ECONNRESET). */
bool rota_socket_send(int own, const void *bytes, uint64_t size_bytes, uint64_t deadline_ns);
bool rota_socket_receive(int own, void *bytes, uint64_t size_bytes, uint64_t deadline_ns);
/* Whether the other end has closed it, and nothing that it sent is left to be read. Never waits. */
bool rota_socket_has_left(int own);
/* What is sent goes at once. */
void rota_socket_make_quick(int own);
/* Until it can be read, or written. */
bool rota_socket_await(int own, bool writes, uint64_t deadline_ns);

/* A socket that does not block, connected to the address; -1, with errno. */
int rota_socket_connect(const rota_socket_address *to, uint64_t deadline_ns);
/* One that listens, for all of this host's addresses, or where `is_local` for its own processes alone; *port 0: the
 * system finds one. -1, with errno. */
int rota_socket_listen(bool is_local, uint32_t *port);
/* Of whoever is at the other end of a connection. */
bool rota_socket_peer(int own, rota_socket_address *out_address);

/* The host's addresses, `most` at the most. Returns how many; 0: *out_reason says why. */
uint32_t rota_socket_resolve(const char *host, uint32_t most, rota_socket_address *out_addresses,
                             const char **out_reason);
/* This host's own, those that others may reach first. */
uint32_t rota_socket_own_addresses(uint32_t most, rota_socket_address *out_addresses);
bool rota_socket_is_loopback(const rota_socket_address *address);
/* "10.0.0.2:4000". */
#define ROTA_SOCKET_TEXT 64
void rota_socket_describe(const rota_socket_address *address, char out_text[ROTA_SOCKET_TEXT]);

#endif
