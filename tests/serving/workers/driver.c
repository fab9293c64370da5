/* What a worker asks of CUDA's driver, for one device whose context is lost once `fault` was called. */
static int lost, references;

void fault(void) { lost = 710; }

int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { *active = device == 1; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &lost; ++references; return device == 1 ? 0 : 1; }
int cuDevicePrimaryCtxRelease_v2(int device) { --references; return 0; }
int cuCtxPushCurrent_v2(void *context) { return context == &lost ? 0 : 1; }
int cuCtxPopCurrent_v2(void **context) { *context = &lost; return references == 1 ? 0 : 1; }
int cuCtxSynchronize(void) { return lost; }
int cuGetErrorName(int error, const char **name) { *name = "CUDA_ERROR_ASSERT"; return error == 710 ? 0 : 1; }
