// SPDX-License-Identifier: Apache-2.0
// MPI program of the fabric's tests: two ranks that wait for messages that are never sent.
// With an argument rank 1 kills itself.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>

int main(int count, char **arguments) {
  int rank, value = 0;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  printf("rank %d waits\n", rank);
  fflush(stdout);
  if (count > 1 && rank == 1) raise(SIGKILL);
  MPI_Recv(&value, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Finalize();
  return 0;
}
