/* Linked into every test: a mutex is unlocked only by the thread that holds it. A lock that is left out shows nowhere else
 * unless two threads happen to meet there. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) {
#ifdef __GLIBC__ /* whose mutexes note their holder, of every kind that rota makes */
    if (mutex->__data.__owner != gettid()) {
        (void)fprintf(stderr, "a mutex is unlocked at %p by a thread that does not hold it\n", __builtin_return_address(0));
        abort();
    }
#endif
    return __real_pthread_mutex_unlock(mutex);
}
