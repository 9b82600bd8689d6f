/* Sockets that don't block, and waits that end by their deadline. */
#include "exec/comm/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

typedef union any_address {
    struct sockaddr base;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    struct sockaddr_storage all;
} any_address;

static socklen_t to_system(const rota_socket_address *address, any_address *out) {
    memset(out, 0, sizeof *out);
    if (address->family == AF_INET) {
        out->four.sin_family = AF_INET;
        out->four.sin_port = htons((uint16_t)address->port);
        memcpy(&out->four.sin_addr, address->bytes, sizeof out->four.sin_addr);
        return sizeof out->four;
    }
    out->six.sin6_family = AF_INET6;
    out->six.sin6_port = htons((uint16_t)address->port);
    memcpy(&out->six.sin6_addr, address->bytes, sizeof out->six.sin6_addr);
    return sizeof out->six;
}

/* An IPv4 one that a socket of both families has as IPv6 becomes what it is. */
static bool from_system(const any_address *from, rota_socket_address *out) {
    memset(out, 0, sizeof *out);
    if (from->base.sa_family == AF_INET) {
        out->family = AF_INET;
        out->port = ntohs(from->four.sin_port);
        memcpy(out->bytes, &from->four.sin_addr, sizeof from->four.sin_addr);
        return true;
    }
    if (from->base.sa_family != AF_INET6) return false;
    const bool is_four = IN6_IS_ADDR_V4MAPPED(&from->six.sin6_addr);
    out->family = is_four ? AF_INET : AF_INET6;
    out->port = ntohs(from->six.sin6_port);
    if (is_four)
        memcpy(out->bytes, from->six.sin6_addr.s6_addr + 12, 4);
    else
        memcpy(out->bytes, &from->six.sin6_addr, sizeof from->six.sin6_addr);
    return true;
}

/* ---- Waits ---- */

bool rota_socket_await(int own, bool writes, uint64_t deadline_ns) {
    for (;;) {
        const uint64_t now = rota_clock_ns();
        const uint64_t left_ms = deadline_ns > now ? (deadline_ns - now + 999999u) / 1000000u : 0;
        struct pollfd one = {.fd = own, .events = writes ? POLLOUT : POLLIN};
        const int ready = poll(&one, 1, left_ms > 1000 ? 1000 : (int)left_ms);
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
        if (left_ms == 0) {
            errno = ETIMEDOUT;
            return false;
        }
    }
}

bool rota_socket_send(int own, const void *bytes, uint64_t size_bytes, uint64_t deadline_ns) {
    for (const uint8_t *from = bytes; size_bytes;) {
        const ssize_t sent = send(own, from, size_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            from += sent;
            size_bytes -= (uint64_t)sent;
        } else if (errno == EAGAIN || errno == EINTR) {
            if (!rota_socket_await(own, true, deadline_ns)) return false;
        } else {
            return false;
        }
    }
    return true;
}

bool rota_socket_receive(int own, void *bytes, uint64_t size_bytes, uint64_t deadline_ns) {
    for (uint8_t *to = bytes; size_bytes;) {
        const ssize_t got = recv(own, to, size_bytes, MSG_DONTWAIT);
        if (got > 0) {
            to += got;
            size_bytes -= (uint64_t)got;
        } else if (got == 0) {
            errno = ECONNRESET;
            return false;
        } else if (errno == EAGAIN || errno == EINTR) {
            if (!rota_socket_await(own, false, deadline_ns)) return false;
        } else {
            return false;
        }
    }
    return true;
}

bool rota_socket_has_left(int own) {
    char byte;
    const ssize_t got = recv(own, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

/* ---- Made ---- */

void rota_socket_make_quick(int own) {
    static const int yes = 1;
    (void)setsockopt(own, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static int close_with(int own, int error) {
    (void)close(own);
    errno = error;
    return -1;
}

int rota_socket_connect(const rota_socket_address *to, uint64_t deadline_ns) {
    any_address address;
    const socklen_t size = to_system(to, &address);
    const int own = socket((int)to->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (own < 0) return -1;
    if (connect(own, &address.base, size) != 0) {
        if (errno != EINPROGRESS || !rota_socket_await(own, true, deadline_ns)) return close_with(own, errno);
        int error = 0;
        socklen_t error_size = sizeof error;
        if (getsockopt(own, SOL_SOCKET, SO_ERROR, &error, &error_size) != 0) error = errno;
        if (error) return close_with(own, error);
    }
    /* A port that nobody listens at may be connected with itself, where the system chose the same for this end. */
    rota_socket_address here;
    any_address local;
    socklen_t local_size = sizeof local;
    if (getsockname(own, &local.base, &local_size) == 0 && from_system(&local, &here) &&
        memcmp(&here, to, sizeof here) == 0)
        return close_with(own, ECONNREFUSED);
    return own;
}

int rota_socket_listen(bool is_local, uint32_t *port) {
    static const int yes = 1, no = 0;
    for (uint32_t is_four = 0; is_four < 2; is_four++) { /* of both families where the system has both */
        any_address address;
        rota_socket_address any = {.family = is_four || is_local ? AF_INET : AF_INET6, .port = *port};
        if (is_local) memcpy(any.bytes, (const uint8_t[]){127, 0, 0, 1}, 4);
        const socklen_t size = to_system(&any, &address);
        const int own = socket((int)any.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (own < 0 && !is_four && !is_local) continue;
        if (own < 0) return -1;
        (void)setsockopt(own, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (any.family == AF_INET6) (void)setsockopt(own, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
        socklen_t out_size = sizeof address;
        if (bind(own, &address.base, size) == 0 && listen(own, SOMAXCONN) == 0 &&
            getsockname(own, &address.base, &out_size) == 0 && from_system(&address, &any)) {
            *port = any.port;
            return own;
        }
        if (is_four || is_local || errno == EADDRINUSE) return close_with(own, errno);
        (void)close(own);
    }
    return -1;
}

bool rota_socket_peer(int own, rota_socket_address *out_address) {
    any_address address;
    socklen_t size = sizeof address;
    return getpeername(own, &address.base, &size) == 0 && from_system(&address, out_address);
}

/* ---- Addresses ---- */

uint32_t rota_socket_resolve(const char *host, uint32_t most, rota_socket_address *out_addresses,
                             const char **out_reason) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int error = getaddrinfo(host, NULL, &hints, &found);
    uint32_t count = 0;
    *out_reason = error ? gai_strerror(error) : "it has no address";
    if (error) return 0;
    for (const struct addrinfo *now = found; now && count < most; now = now->ai_next) {
        any_address address;
        memset(&address, 0, sizeof address);
        if (now->ai_addrlen > sizeof address) continue;
        memcpy(&address, now->ai_addr, now->ai_addrlen);
        count += from_system(&address, &out_addresses[count]);
    }
    freeaddrinfo(found);
    return count;
}

bool rota_socket_is_loopback(const rota_socket_address *address) {
    if (address->family == AF_INET) return address->bytes[0] == 127;
    return memcmp(address->bytes, &in6addr_loopback, sizeof in6addr_loopback) == 0;
}

uint32_t rota_socket_own_addresses(uint32_t most, rota_socket_address *out_addresses) {
    struct ifaddrs *found = NULL;
    uint32_t count = 0;
    if (getifaddrs(&found) != 0) return 0;
    for (uint32_t is_local = 0; is_local < 2; is_local++)
        for (const struct ifaddrs *now = found; now && count < most; now = now->ifa_next) {
            any_address address;
            memset(&address, 0, sizeof address);
            if (!now->ifa_addr || !(now->ifa_flags & IFF_UP)) continue;
            const int family = now->ifa_addr->sa_family;
            if (family != AF_INET && family != AF_INET6) continue;
            memcpy(&address, now->ifa_addr, family == AF_INET ? sizeof address.four : sizeof address.six);
            if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address.six.sin6_addr)) continue;
            count += from_system(&address, &out_addresses[count]) &&
                     rota_socket_is_loopback(&out_addresses[count]) == (is_local != 0);
        }
    freeifaddrs(found);
    return count;
}

void rota_socket_describe(const rota_socket_address *address, char out_text[ROTA_SOCKET_TEXT]) {
    char text[INET6_ADDRSTRLEN] = "?";
    (void)inet_ntop((int)address->family, address->bytes, text, sizeof text);
    (void)snprintf(out_text, ROTA_SOCKET_TEXT, address->family == AF_INET6 ? "[%s]:%u" : "%s:%u", text,
                   address->port);
}
