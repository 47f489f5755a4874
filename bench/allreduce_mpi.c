// Times MPI_Allreduce of f32 under mpirun: `allreduce_mpi MIB REPEATS`. Prints the mean in milliseconds.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 3) return 2;
  int count = (int)(strtod(argv[1], NULL) * 262144), repeats = (int)strtol(argv[2], NULL, 10);
  if (count < 1) count = 1;
  size_t bytes = (size_t)count * sizeof(float);
  float *src = malloc(bytes), *dst = malloc(bytes);
  for (int i = 0; i < count; i++) src[i] = (float)(rank + i % 7);
  memset(dst, 0, bytes);
  double start = 0;
  for (int i = -2; i < repeats; i++) {
    if (i == 0) start = MPI_Wtime();
    MPI_Allreduce(src, dst, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  if (rank == 0) printf("%.4f\n", 1e3 * (MPI_Wtime() - start) / repeats);
  MPI_Finalize();
  return 0;
}
