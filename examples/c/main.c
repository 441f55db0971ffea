/* A product of matrices from C, called by two threads. Build and run, in this folder:
 *
 *     mslang build ../gemm.ms:tiled --set M=64 --set N=64 --set K=64 -o gemm.h -o gemm.o
 *     cc -O2 -o main main.c gemm.o -lm -pthread
 *     ./main
 */
#include <pthread.h>
#include <stdio.h>

#include "gemm.h"

enum { N = 64 };

struct product {
    float a[N * N], b[N * N], c[N * N];
    int status;
};

static void *multiply(void *of) {
    struct product *p = of;
    p->status = gemm(p->a, p->b, p->c);
    return NULL;
}

int main(void) {
    static struct product products[2];
    pthread_t threads[2];
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < N * N; i++) {
            products[t].a[i] = (float)((i * 7 + t) % 13 - 6);
            products[t].b[i] = (float)((i * 5 + t) % 11 - 5);
        }
        if (pthread_create(&threads[t], NULL, multiply, &products[t]) != 0) return 1;
    }
    for (int t = 0; t < 2; t++) {
        pthread_join(threads[t], NULL);
        if (products[t].status != MSLANG_OK) {
            fprintf(stderr, "gemm: status %d\n", products[t].status);
            return 1;
        }
        for (int i = 0; i < N * N; i++) printf("%.9g\n", products[t].c[i]);
    }
    return 0;
}
