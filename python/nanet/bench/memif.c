// SPDX-License-Identifier: Apache-2.0
// Round trips between two processes through DPDK's memif (shared memory, no kernel): `ping` sends one frame
// at a time and prints a JSON line of percentiles, `echo` returns every frame. Built by `nanet bench stack`.
// memif EAL-OPTIONS -- ping|echo UDP_PAYLOAD_BYTES SECONDS SAMPLES PRIORITY
// PRIORITY: of SCHED_FIFO, with locked memory; 0: normal scheduling.
#define _GNU_SOURCE
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_version.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { header_bytes = 42, burst = 32, warm_up = 2000 };
static const uint64_t second = 1000000000, give_up = 100000000;

static volatile sig_atomic_t stopped;
static void stop(int number) {
  (void)number;
  stopped = 1;
}

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * second + (uint64_t)time.tv_nsec;
}

static int ascending(const void* a, const void* b) {
  const uint64_t x = *(const uint64_t*)a, y = *(const uint64_t*)b;
  return x < y ? -1 : x > y;
}

static void print(uint64_t* times, size_t count, uint64_t lost) {
  static const struct {
    const char* name;
    double share;
  } levels[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99_9", 0.999}, {"p99_99", 0.9999}, {"max", 1}};
  qsort(times, count, sizeof *times, ascending);
  printf("{\"samples\": %zu, \"lost\": %lu, \"wrong\": 0", count, (unsigned long)lost);
  for (size_t i = 0; i < sizeof levels / sizeof *levels; ++i)
    printf(", \"%s_us\": %.3f", levels[i].name,
           count ? (double)times[(size_t)((double)(count - 1) * levels[i].share)] * 1e-3 : 0.0);
  printf("}\n");
  fflush(stdout);
}

// Called after the first frame: before it, DPDK's thread of the connection needs the CPU.
static struct sched_param priority;
static void real_time(void) {
  if (priority.sched_priority &&
      (mlockall(MCL_CURRENT | MCL_FUTURE) || sched_setscheduler(0, SCHED_FIFO, &priority))) {
    perror("memif: real time");
    exit(2);
  }
  priority.sched_priority = 0;
}

static void echo(void) {
  struct rte_mbuf* frames[burst];
  while (!stopped) {
    const uint16_t got = rte_eth_rx_burst(0, 0, frames, burst);
    for (uint16_t sent = 0; sent < got && !stopped;)
      sent = (uint16_t)(sent + rte_eth_tx_burst(0, 0, frames + sent, (uint16_t)(got - sent)));
    if (got && priority.sched_priority) real_time();
  }
}

static int ping(struct rte_mempool* pool, uint16_t bytes, double seconds, size_t samples) {
  uint64_t* times = calloc(samples, sizeof *times);
  if (!times) return 1;
  const uint64_t until = now_ns() + (uint64_t)(seconds * (double)second);
  struct rte_mbuf* frames[burst];
  uint64_t number = 0, lost = 0;
  size_t count = 0;
  while (!stopped && count < samples) {
    struct rte_mbuf* frame = rte_pktmbuf_alloc(pool);
    if (!frame) continue;
    memset(rte_pktmbuf_mtod(frame, void*), 0, bytes);
    memcpy(rte_pktmbuf_mtod_offset(frame, void*, header_bytes), &number, sizeof number);
    frame->data_len = bytes;
    frame->pkt_len = bytes;
    const uint64_t start = now_ns();
    uint64_t now = start;
    while (!rte_eth_tx_burst(0, 0, &frame, 1) && !stopped) {
    }
    int answered = 0;
    while (!answered && now - start < give_up && !stopped) {
      const uint16_t got = rte_eth_rx_burst(0, 0, frames, burst);
      now = now_ns();
      for (uint16_t i = 0; i < got; ++i) {
        uint64_t back;
        memcpy(&back, rte_pktmbuf_mtod_offset(frames[i], void*, header_bytes), sizeof back);
        answered |= back == number;
        rte_pktmbuf_free(frames[i]);
      }
    }
    if (answered && priority.sched_priority) real_time();
    if (++number > warm_up) {
      if (answered)
        times[count++] = now - start;
      else
        ++lost;
    }
    if (now > until) break;
  }
  print(times, count, lost);
  free(times);
  return 0;
}

// A client's first connection fails on a loaded host while the server's thread has not accepted it.
static int start_device(void) {
  for (int tries = 0; tries < 50; ++tries, usleep(100000))
    if (!rte_eth_dev_start(0)) return 0;
  return -1;
}

int main(int argc, char** argv) {
  const int used = rte_eal_init(argc, argv);
  if (used < 0 || argc - used < 6) return 2;
  argv += used;
  const uint16_t bytes = (uint16_t)(atoi(argv[2]) + header_bytes);
  const double seconds = atof(argv[3]);
  const size_t samples = (size_t)atol(argv[4]);
  priority.sched_priority = atoi(argv[5]);
  signal(SIGTERM, stop);
  signal(SIGINT, stop);
  struct rte_mempool* pool = rte_pktmbuf_pool_create("frames", 8191, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
  const struct rte_eth_conf configuration = {0};
  if (!pool || rte_eth_dev_configure(0, 1, 1, &configuration) ||
      rte_eth_rx_queue_setup(0, 0, 1024, 0, NULL, pool) || rte_eth_tx_queue_setup(0, 0, 1024, 0, NULL) ||
      start_device()) {
    fprintf(stderr, "memif: %s\n", rte_strerror(rte_errno));
    return 2;
  }
  struct rte_eth_link link = {0};
  printf("%s\n", rte_version());
  fflush(stdout);
  while (!stopped && !link.link_status) rte_eth_link_get_nowait(0, &link);
  int status = 0;
  if (strcmp(argv[1], "ping") == 0)
    status = ping(pool, bytes, seconds, samples);
  else
    echo();
  rte_eth_dev_stop(0);
  rte_eth_dev_close(0);
  return status;
}
