// SPDX-License-Identifier: Apache-2.0
// MPI program of `nanet torus demo`: heat in a periodic box of three dimensions, one block of it per rank.
// Each iteration exchanges the six faces of the block and sums the heat over all ranks. The initial wave
// decays by a factor that is known exactly: the result is compared with it. Arguments: iterations; a file,
// which grows by a byte with each. Output of rank 0: `error E`.
#include <fcntl.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { side = 16, padded = side + 2 };  // cells of a block along an axis; with the faces of the neighbours

static double heat[padded][padded][padded], next[padded][padded][padded];
static double sent[6][side * side], received[6][side * side];

// The cell (i, j) of a plane across an axis.
static double* cell(int axis, int plane, int i, int j) {
  return axis == 0 ? &heat[plane][i][j] : axis == 1 ? &heat[i][plane][j] : &heat[i][j][plane];
}

static void exchange(MPI_Comm box) {
  MPI_Request request[12];
  int requests = 0;
  for (int axis = 0; axis < 3; ++axis) {
    for (int i = 0; i < side; ++i)
      for (int j = 0; j < side; ++j) {
        sent[2 * axis][i * side + j] = *cell(axis, 1, i + 1, j + 1);
        sent[2 * axis + 1][i * side + j] = *cell(axis, side, i + 1, j + 1);
      }
    int below, above;
    MPI_Cart_shift(box, axis, 1, &below, &above);
    MPI_Irecv(received[2 * axis], side * side, MPI_DOUBLE, below, 2 * axis + 1, box, &request[requests++]);
    MPI_Irecv(received[2 * axis + 1], side * side, MPI_DOUBLE, above, 2 * axis, box, &request[requests++]);
    MPI_Isend(sent[2 * axis], side * side, MPI_DOUBLE, below, 2 * axis, box, &request[requests++]);
    MPI_Isend(sent[2 * axis + 1], side * side, MPI_DOUBLE, above, 2 * axis + 1, box, &request[requests++]);
  }
  MPI_Waitall(requests, request, MPI_STATUSES_IGNORE);
  for (int axis = 0; axis < 3; ++axis)
    for (int i = 0; i < side; ++i)
      for (int j = 0; j < side; ++j) {
        *cell(axis, 0, i + 1, j + 1) = received[2 * axis][i * side + j];
        *cell(axis, side + 1, i + 1, j + 1) = received[2 * axis + 1][i * side + j];
      }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int iterations = argc > 1 ? atoi(argv[1]) : 100;
  int rank, ranks, dims[3] = {0, 0, 0}, at[3];
  const int periodic[3] = {1, 1, 1};
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int progress = rank == 0 && argc > 2 ? open(argv[2], O_WRONLY | O_APPEND) : -1;
  MPI_Dims_create(ranks, 3, dims);
  MPI_Comm box;
  MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periodic, 0, &box);
  MPI_Cart_coords(box, rank, 3, at);

  // 2 + a wave along each axis; a step of 1/8 multiplies the wave of an axis by its decay.
  double wave[3][side], decay[3], scale[3] = {1, 1, 1};
  for (int axis = 0; axis < 3; ++axis) {
    const double turn = 2 * acos(-1) / (dims[axis] * side);
    decay[axis] = 1 - (1 - cos(turn)) / 4;
    for (int i = 0; i < side; ++i) wave[axis][i] = sin(turn * (at[axis] * side + i));
  }
  for (int x = 0; x < side; ++x)
    for (int y = 0; y < side; ++y)
      for (int z = 0; z < side; ++z) heat[x + 1][y + 1][z + 1] = 2 + wave[0][x] + wave[1][y] + wave[2][z];

  double error = 0;
  for (int k = 1; k <= iterations; ++k) {
    exchange(box);
    double here = 0, all = 0;
    for (int x = 1; x <= side; ++x)
      for (int y = 1; y <= side; ++y)
        for (int z = 1; z <= side; ++z) {
          const double around = heat[x - 1][y][z] + heat[x + 1][y][z] + heat[x][y - 1][z] +
                                heat[x][y + 1][z] + heat[x][y][z - 1] + heat[x][y][z + 1];
          here += next[x][y][z] = heat[x][y][z] / 4 + around / 8;
        }
    memcpy(heat, next, sizeof heat);
    MPI_Allreduce(&here, &all, 1, MPI_DOUBLE, MPI_SUM, box);
    error = fmax(error, fabs(all / (2.0 * side * side * side * ranks) - 1));  // heat is conserved
    for (int axis = 0; axis < 3; ++axis) scale[axis] *= decay[axis];
    if (progress >= 0 && write(progress, "i", 1) != 1) MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (int x = 0; x < side; ++x)
    for (int y = 0; y < side; ++y)
      for (int z = 0; z < side; ++z)
        error = fmax(error, fabs(heat[x + 1][y + 1][z + 1] - 2 - scale[0] * wave[0][x] -
                                 scale[1] * wave[1][y] - scale[2] * wave[2][z]));
  double largest = 0;
  MPI_Reduce(&error, &largest, 1, MPI_DOUBLE, MPI_MAX, 0, box);
  if (rank == 0) printf("error %.3e\n", largest);
  MPI_Finalize();
  return 0;
}
