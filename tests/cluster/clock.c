// Loaded into a manager (LD_PRELOAD), it moves the clock of the day by the nanoseconds in the file $CLUSTER_CLOCK. The
// steady clock stays, as when somebody sets the time of a machine. libfaketime leaves out the futex calls of Abseil,
// so that waits of gRPC would last as much longer as the clock is ahead.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t none = 0;
static const volatile int64_t* offset = &none;

__attribute__((constructor)) static void Open(void) {
  const char* path = getenv("CLUSTER_CLOCK");
  const int file = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void* page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) offset = page;
  close(file);
}

static long Raw(long number, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

static long Checked(long result) {
  if (result >= 0 || result < -4095) return result;
  errno = (int)-result;
  return -1;
}

static struct timespec Moved(const struct timespec* time, int64_t by) {
  const int64_t second = 1000000000;
  const int64_t sum = time->tv_sec * second + time->tv_nsec + by;
  struct timespec moved = {sum / second, sum % second};
  return moved;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const long result = Checked(Raw(SYS_clock_gettime, clock, (long)now, 0, 0, 0, 0));
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) *now = Moved(now, *offset);
  return (int)result;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  struct timespec time;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &time);
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != NULL) *result = now.tv_sec;
  return now.tv_sec;
}

// The next three wait until a time of the day, by the kernel's clock, which did not move.
long syscall(long number, ...) {
  long argument[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; ++i) argument[i] = va_arg(list, long);
  va_end(list);
  struct timespec until;
  const int absolute = (int)argument[1] & FUTEX_CLOCK_REALTIME;
  if (number == SYS_futex && absolute && argument[3] != 0) {
    until = Moved((const struct timespec*)argument[3], -*offset);
    argument[3] = (long)&until;
  }
  return Checked(Raw(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]));
}

int pthread_cond_timedwait(pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex,
                           const struct timespec* restrict until) {
  const struct timespec moved = Moved(until, -*offset);
  return pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, &moved);
}

int sem_timedwait(sem_t* restrict semaphore, const struct timespec* restrict until) {
  const struct timespec moved = Moved(until, -*offset);
  return sem_clockwait(semaphore, CLOCK_REALTIME, &moved);
}
