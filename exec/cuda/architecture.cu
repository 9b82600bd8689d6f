/* One empty kernel, named after the architecture that it was compiled for: who has loaded the image knows what the
 * device runs. */
#if __CUDA_ARCH__ >= 1210
#define NAME architecture_121
#elif __CUDA_ARCH__ >= 1200
#define NAME architecture_120
#elif __CUDA_ARCH__ >= 1100
#define NAME architecture_110
#elif __CUDA_ARCH__ >= 1030
#define NAME architecture_103
#elif __CUDA_ARCH__ >= 1000
#define NAME architecture_100
#elif __CUDA_ARCH__ >= 900
#define NAME architecture_90
#elif __CUDA_ARCH__ >= 890
#define NAME architecture_89
#elif __CUDA_ARCH__ >= 870
#define NAME architecture_87
#elif __CUDA_ARCH__ >= 860
#define NAME architecture_86
#elif __CUDA_ARCH__ >= 800
#define NAME architecture_80
#else
#define NAME architecture_75
#endif

extern "C" __global__ void NAME() {}
