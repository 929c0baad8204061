/* Loaded before libc under valgrind, which does not know the system call pidfd_open (not in Debian 12's version): stands
 * in for it with a descriptor on which nothing ever happens, as on that of a process that lives on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

long syscall(long number, ...)
{
    if (number == SYS_pidfd_open)
        return eventfd(0, EFD_CLOEXEC);

    long argument[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        argument[i] = va_arg(arguments, long);
    va_end(arguments);

    long (*real)(long, ...);
    *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    return real(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}
