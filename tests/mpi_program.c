// SPDX-License-Identifier: Apache-2.0
// MPI program of the fabric's tests: collective, messages of all protocols, one-sided operations. Argument: largest
// message (default: 3000000 B).
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int messages(int rank, int ranks, int largest) {
  static const int sizes[] = {0, 1, 192, 193, 8192, 8193, 20000, 3000000};
  int wrong = 0;
  for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; ++k) {
    if (sizes[k] > largest) break;
    char *out = malloc(sizes[k] + 1), *in = malloc(sizes[k] + 1);
    memset(out, rank + 1, sizes[k]);
    MPI_Sendrecv(out, sizes[k], MPI_CHAR, (rank + 1) % ranks, 7, in, sizes[k], MPI_CHAR, (rank + ranks - 1) % ranks, 7,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < sizes[k]; ++i) wrong += in[i] != (rank + ranks - 1) % ranks + 1;
    free(out);
    free(in);
  }
  return wrong;
}

static int one_sided(int rank, int ranks) {
  long *memory, one = 1, old = -1, put = 100 + rank;
  MPI_Win window;
  MPI_Win_allocate(2 * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  memory[0] = memory[1] = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, window);
  MPI_Put(&put, 1, MPI_LONG, (rank + 1) % ranks, 1, 1, MPI_LONG, window);
  MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, window);
  MPI_Win_flush_all(window);
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
  const int wrong = memory[1] != 100 + (rank + ranks - 1) % ranks || (rank == 0 && memory[0] != ranks) || old < 0;
  MPI_Win_unlock(rank, window);
  MPI_Win_free(&window);
  return wrong;
}

int main(int count, char **arguments) {
  int rank, ranks, sum = 0;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  int wrong = (sum != ranks * (ranks - 1) / 2) + messages(rank, ranks, count > 1 ? atoi(arguments[1]) : 3000000) + one_sided(rank, ranks);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks, %d wrong\n", ranks, wrong);
  MPI_Finalize();
  return wrong != 0;
}
