/* Preloaded into a process by tests: a layer between the process and its files and clock, which fails when the test wants it.
 *
 * FAULTS names a file of 512 bytes that the test changes while the process runs. Its text has four numbers and a word:
 * the errno of every write, of every sync and of every truncation (0: none fails), the seconds by which the wall clock
 * is wrong, and the end of the paths that are meant.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WRITE, SYNC, TRUNCATE };

static const char *faults;

__attribute__((constructor)) static void map_faults(void) {
    const char *path = getenv("FAULTS");
    int descriptor = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor < 0)
        return;
    void *mapped = mmap(NULL, 512, PROT_READ, MAP_SHARED, descriptor, 0);
    faults = mapped == MAP_FAILED ? NULL : mapped;
    close(descriptor);
}

/* Return the errno with which the operation on this file fails, or 0. */
static int fault_of(int operation, int descriptor) {
    int errors[3];
    char link[64], path[4096], end[256];
    if (!faults || sscanf(faults, "%d %d %d %*d %255s", &errors[0], &errors[1], &errors[2], end) != 4)
        return 0;
    if (!errors[operation])
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path), wanted = (ssize_t)strlen(end);
    return length >= wanted && !memcmp(path + length - wanted, end, wanted) ? errors[operation] : 0;
}

#define FAULTY(operation, type, name, descriptor, parameters, arguments)                                               \
    type name parameters {                                                                                             \
        static type(*real) parameters;                                                                                 \
        int fault = fault_of(operation, descriptor);                                                                   \
        if (fault) {                                                                                                   \
            errno = fault;                                                                                             \
            return -1;                                                                                                 \
        }                                                                                                              \
        if (!real)                                                                                                     \
            real = dlsym(RTLD_NEXT, #name);                                                                            \
        return real arguments;                                                                                         \
    }

FAULTY(WRITE, ssize_t, write, fd, (int fd, const void *from, size_t count), (fd, from, count))
FAULTY(WRITE, ssize_t, writev, fd, (int fd, const struct iovec *from, int count), (fd, from, count))
FAULTY(WRITE, ssize_t, pwrite, fd, (int fd, const void *from, size_t count, off_t at), (fd, from, count, at))
FAULTY(WRITE, ssize_t, pwrite64, fd, (int fd, const void *from, size_t count, off64_t at), (fd, from, count, at))
FAULTY(SYNC, int, fsync, fd, (int fd), (fd))
FAULTY(SYNC, int, fdatasync, fd, (int fd), (fd))
FAULTY(TRUNCATE, int, ftruncate, fd, (int fd, off_t length), (fd, length))
FAULTY(TRUNCATE, int, ftruncate64, fd, (int fd, off64_t length), (fd, length))

static long seconds_wrong(void) {
    long seconds = 0;
    return faults && sscanf(faults, "%*d %*d %*d %ld", &seconds) == 1 ? seconds : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (!result && clock == CLOCK_REALTIME)
        now->tv_sec += seconds_wrong();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (!real)
        real = dlsym(RTLD_NEXT, "gettimeofday");
    int result = real(now, zone);
    now->tv_sec += seconds_wrong();
    return result;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result)
        *result = now.tv_sec;
    return now.tv_sec;
}
