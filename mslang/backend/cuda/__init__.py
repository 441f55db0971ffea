"""The CUDA back end: CUDA C from kernels, compiled by NVRTC or nvcc, run through pycuda."""
