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

/* A port that nobody has, as long as nobody takes it; 0: there is none. */
static inline uint16_t test_free_port(void) {
    uint16_t port = 0;
    const int own = test_take_port(0, &port);
    if (own >= 0) (void)close(own);
    return own >= 0 ? port : 0;
}

#endif
