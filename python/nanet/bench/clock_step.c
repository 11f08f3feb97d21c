// SPDX-License-Identifier: Apache-2.0
// Clock step for one program (LD_PRELOAD): CLOCK_REALTIME and the kernel's time stamps of packets, plus the ns
// in the file of NANET_CLOCK_STEP.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t* step;

__attribute__((constructor)) static void map_step(void) {
  const char* path = getenv("NANET_CLOCK_STEP");
  const int file = path ? open(path, O_RDONLY) : -1;
  if (file < 0) return;
  void* at = mmap(0, sizeof *step, PROT_READ, MAP_SHARED, file, 0);
  if (at != MAP_FAILED) step = at;
  close(file);
}

static void add(struct timespec* at) {
  const int64_t now = (int64_t)at->tv_sec * 1000000000 + at->tv_nsec + *step;
  at->tv_sec = now / 1000000000;
  at->tv_nsec = now % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec* out) {
  const int failed = (int)syscall(SYS_clock_gettime, clock, out);
  if (!failed && clock == CLOCK_REALTIME && step) add(out);
  return failed;
}

int recvmmsg(int file, struct mmsghdr* messages, unsigned count, int flags, struct timespec* timeout) {
  const int got = (int)syscall(SYS_recvmmsg, file, messages, count, flags, timeout);
  for (int i = 0; i < got && step; ++i) {
    struct msghdr* head = &messages[i].msg_hdr;
    for (struct cmsghdr* c = CMSG_FIRSTHDR(head); c; c = CMSG_NXTHDR(head, c))
      if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) add((struct timespec*)CMSG_DATA(c));
  }
  return got;
}
