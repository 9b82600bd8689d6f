/* Ports of this machine that nobody has. */
#ifndef ROTA_TESTS_FREE_PORT_H
#define ROTA_TESTS_FREE_PORT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

/* A socket that has the port, and listens for nobody, so that nobody else does; 0: any that is free, *out_port. The
 * caller closes it. -1: somebody has it. */
static inline int test_take_port(uint16_t port, uint16_t *out_port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    const int own = socket(AF_INET, SOCK_STREAM, 0);
    if (own >= 0 && bind(own, (struct sockaddr *)&address, sizeof address) == 0 &&
        getsockname(own, (struct sockaddr *)&address, &size) == 0) {
        *out_port = ntohs(address.sin_port);
        return own;
    }
    if (own >= 0) (void)close(own);
    return -1;
}

/* A port at which nobody listens: it stays bound, so that no other test is given it and no connection begins there, for
 * as long as this program lives. Who sets SO_REUSEADDR may listen at it. 0: there is none. */
static inline uint16_t test_free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    const int yes = 1, own = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* kept */
    if (own < 0 || setsockopt(own, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(own, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(own, (struct sockaddr *)&address, &size) != 0) {
        if (own >= 0) (void)close(own);
        return 0;
    }
    return ntohs(address.sin_port);
}

#endif
