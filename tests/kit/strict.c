/* Linked into every test.
 *
 * A mutex is unlocked only by the thread that holds it: a lock that is left out shows nowhere else unless two
 * threads happen to meet there.
 *
 * Memory that malloc gives away, or gets back, is full of a byte that is nothing: what a fresh process gives
 * is mostly zeros, with which much that reads before it writes, or past the end, is right by luck. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

#ifdef __GLIBC__
__attribute__((constructor)) static void fill_memory(void) {
    (void)mallopt(M_PERTURB, 0x5a); /* 0xa5 when it is given away */
}
#endif

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) {
#ifdef __GLIBC__ /* whose mutexes note their holder, of every kind that rota makes */
    if (mutex->__data.__owner != gettid()) {
        (void)fprintf(stderr, "a mutex is unlocked at %p by a thread that does not hold it\n",
                      __builtin_return_address(0));
        abort();
    }
#endif
    return __real_pthread_mutex_unlock(mutex);
}
