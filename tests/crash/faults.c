/* Preloaded into a process: counts the calls that change files below one folder, and at one of them
   ends the process, or fails as a full or broken disk does, or writes only a half.

   What the C library calls within itself passes by, such as what fwrite() has gathered. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NONE, KILL, FULL, BROKEN, SHORT }; /* as FAULTS in points.py; NONE only counts */
enum { TAKES_SPACE, WRITES, FREES };
enum { GO, FAIL, HALF };

static char folder[PATH_MAX];
static size_t length; /* 0 until it is armed */
static long at;
static int fault, report;
static atomic_long calls;

/* From now on: fault, at the at-th call below the folder; calls are told to an open file. */
void arm_faults(const char *below, long number, int kind, int told) {
    strcpy(folder, below);
    at = number, fault = kind, report = told, length = strlen(below);
}

static int below(const char *path) {
    return !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static int known(int file, const char *path, char *full) {
    char link[64];
    ssize_t size = 0;
    if (*path != '/') {
        snprintf(link, sizeof link, file == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", file);
        size = readlink(link, full, PATH_MAX - 1);
        if (size < 0) return 0;
        if (*path) full[size++] = '/';
    }
    snprintf(full + size, PATH_MAX - size, "%s", path);
    return below(full);
}

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
}

/* What is to happen at this call. */
static int decide(const char *name, int group, int file, const char *path) {
    static atomic_int is_full;
    char full[PATH_MAX], line[PATH_MAX + 64];
    int error = errno, what = GO;
    if (!length || !known(file, path, full)) {
        errno = error;
        return GO;
    }
    long number = atomic_fetch_add(&calls, 1) + 1;
    if (number == at || fault == NONE) {
        int size = snprintf(line, sizeof line, "%s %s\n", name, full);
        syscall(SYS_write, report, line, (size_t)size);
    }
    errno = error;
    if (number == at && fault == KILL && group != WRITES) die();
    if (number == at && fault == FULL) is_full = 1;
    if (is_full && group != FREES) errno = ENOSPC, what = FAIL;
    if (number == at && fault == BROKEN) errno = EIO, what = FAIL;
    if (number == at && group == WRITES && (fault == SHORT || fault == KILL)) what = HALF;
    return what;
}

static ssize_t end(ssize_t done, int what) {
    if (what == HALF && fault == KILL) die();
    return done;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define WRAP(name, group, file, path, parameters, arguments)                \
    int name parameters {                                                   \
        return decide(#name, group, file, path) == FAIL ? -1 : REAL(name) arguments; \
    }
#define WRAP_WRITE(name, file, size, parameters, arguments)                 \
    ssize_t name parameters {                                               \
        int what = decide(#name, WRITES, file, "");                         \
        if (what == FAIL) return -1;                                        \
        if (what == HALF && size > 1) size /= 2;                            \
        return end(REAL(name) arguments, what);                             \
    }
/* Opening changes a file that it makes or empties. */
#define WRAP_OPEN(name, file, parameters, before)                           \
    int name parameters {                                                   \
        va_list more;                                                       \
        va_start(more, flags);                                              \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                                       \
        if (flags & (O_CREAT | O_TRUNC) && decide(#name, TAKES_SPACE, file, path) == FAIL) \
            return -1;                                                      \
        return REAL(name)(before path, flags, mode);                        \
    }
#define COMMA ,

WRAP_OPEN(open, AT_FDCWD, (const char *path, int flags, ...), )
WRAP_OPEN(open64, AT_FDCWD, (const char *path, int flags, ...), )
WRAP_OPEN(openat, folder_, (int folder_, const char *path, int flags, ...), folder_ COMMA)
WRAP_OPEN(openat64, folder_, (int folder_, const char *path, int flags, ...), folder_ COMMA)

WRAP_WRITE(write, file, size, (int file, const void *from, size_t size), (file, from, size))
WRAP_WRITE(pwrite, file, size, (int file, const void *from, size_t size, off_t place),
           (file, from, size, place))
WRAP_WRITE(pwrite64, file, size, (int file, const void *from, size_t size, off64_t place),
           (file, from, size, place))
WRAP_WRITE(sendfile, file, size, (int file, int from, off_t *place, size_t size),
           (file, from, place, size))
WRAP_WRITE(sendfile64, file, size, (int file, int from, off64_t *place, size_t size),
           (file, from, place, size))
WRAP_WRITE(copy_file_range, file, size,
           (int from, off64_t *here, int file, off64_t *there, size_t size, unsigned flags),
           (from, here, file, there, size, flags))
WRAP_WRITE(writev, file, count, (int file, const struct iovec *parts, int count),
           (file, parts, count))

WRAP(ftruncate, TAKES_SPACE, file, "", (int file, off_t size), (file, size))
WRAP(ftruncate64, TAKES_SPACE, file, "", (int file, off64_t size), (file, size))
WRAP(fsync, TAKES_SPACE, file, "", (int file), (file))
WRAP(fdatasync, TAKES_SPACE, file, "", (int file), (file))
WRAP(mkdir, TAKES_SPACE, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
WRAP(mkdirat, TAKES_SPACE, at_, path, (int at_, const char *path, mode_t mode), (at_, path, mode))
WRAP(link, TAKES_SPACE, AT_FDCWD, path, (const char *from, const char *path), (from, path))
WRAP(symlink, TAKES_SPACE, AT_FDCWD, path, (const char *to, const char *path), (to, path))
WRAP(rename, TAKES_SPACE, AT_FDCWD, path, (const char *from, const char *path), (from, path))
WRAP(renameat, TAKES_SPACE, to, path, (int at_, const char *from, int to, const char *path),
     (at_, from, to, path))
WRAP(renameat2, TAKES_SPACE, to, path,
     (int at_, const char *from, int to, const char *path, unsigned flags),
     (at_, from, to, path, flags))
WRAP(unlink, FREES, AT_FDCWD, path, (const char *path), (path))
WRAP(unlinkat, FREES, at_, path, (int at_, const char *path, int flags), (at_, path, flags))
WRAP(rmdir, FREES, AT_FDCWD, path, (const char *path), (path))
WRAP(remove, FREES, AT_FDCWD, path, (const char *path), (path))
WRAP(chmod, FREES, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
WRAP(fchmod, FREES, file, "", (int file, mode_t mode), (file, mode))
WRAP(fchmodat, FREES, at_, path, (int at_, const char *path, mode_t mode, int flags),
     (at_, path, mode, flags))
WRAP(utimensat, FREES, at_, path,
     (int at_, const char *path, const struct timespec times[2], int flags),
     (at_, path, times, flags))
WRAP(futimens, FREES, file, "", (int file, const struct timespec times[2]), (file, times))
