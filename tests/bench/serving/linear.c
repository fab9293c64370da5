/* A Triton backend in C for the bench: one float tensor "x" in, one "y" out, which is 0.5 x + 2 or, where the model's
 * folder has `weights` (64 floats and an intercept), a logistic regression's probability. Only what of Triton's backend
 * interface it calls is declared, so that no header is needed. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Opaque Error, Model, Instance, Request, Response, Input, Output;
enum { FLOAT32 = 11, CPU = 0, COMPLETE = 1, RELEASE_ALL = 1, INVALID = 3 };

extern Error *TRITONSERVER_ErrorNew(int code, const char *message);
extern Error *TRITONBACKEND_ModelRepository(Model *, int *artifact, const char **path);
extern Error *TRITONBACKEND_ModelSetState(Model *, void *);
extern Error *TRITONBACKEND_ModelState(Model *, void **);
extern Error *TRITONBACKEND_ModelInstanceModel(Instance *, Model **);
extern Error *TRITONBACKEND_RequestInputByIndex(Request *, uint32_t index, Input **);
extern Error *TRITONBACKEND_RequestRelease(Request *, uint32_t flags);
extern Error *TRITONBACKEND_InputProperties(Input *, const char **name, int *dtype, const int64_t **shape, uint32_t *rank,
                                            uint64_t *bytes, uint32_t *buffers);
extern Error *TRITONBACKEND_InputBuffer(Input *, uint32_t index, const void **buffer, uint64_t *bytes, int *memory,
                                        int64_t *memory_id);
extern Error *TRITONBACKEND_ResponseNew(Response **, Request *);
extern Error *TRITONBACKEND_ResponseOutput(Response *, Output **, const char *name, int dtype, const int64_t *shape,
                                           uint32_t rank);
extern Error *TRITONBACKEND_OutputBuffer(Output *, void **buffer, uint64_t bytes, int *memory, int64_t *memory_id);
extern Error *TRITONBACKEND_ResponseSend(Response *, uint32_t flags, Error *);

/* What a model's instances compute with; without a file of weights `width` is 0. */
typedef struct {
    size_t width;
    float weights[4096];
    float intercept;
} Linear;

static Error *read_weights(Model *model, Linear *linear) {
    const char *folder;
    int artifact;
    Error *error = TRITONBACKEND_ModelRepository(model, &artifact, &folder);
    if (error != NULL) return error;
    char path[4096];
    snprintf(path, sizeof path, "%s/weights", folder);
    FILE *file = fopen(path, "rb");
    if (file == NULL) return NULL;
    size_t read = fread(linear->weights, sizeof(float), 4096, file);
    fclose(file);
    if (read < 2) return TRITONSERVER_ErrorNew(INVALID, "the file of weights has no weight and intercept");
    linear->width = read - 1;
    linear->intercept = linear->weights[linear->width];
    return NULL;
}

Error *TRITONBACKEND_ModelInitialize(Model *model) {
    Linear *linear = calloc(1, sizeof *linear);
    Error *error = read_weights(model, linear);
    return error != NULL ? error : TRITONBACKEND_ModelSetState(model, linear);
}

static void compute(const Linear *linear, const float *x, float *y, size_t count) {
    if (linear->width == 0) {
        for (size_t i = 0; i < count; i++) y[i] = 0.5f * x[i] + 2.0f;
        return;
    }
    for (size_t row = 0; row < count / linear->width; row++) {
        float sum = linear->intercept;
        for (size_t i = 0; i < linear->width; i++) sum += linear->weights[i] * x[row * linear->width + i];
        y[row] = 1.0f / (1.0f + expf(-sum));
    }
}

static Error *answer(const Linear *linear, Request *request, Response *response) {
    Input *input;
    Output *output;
    const char *name;
    const int64_t *shape;
    const void *x;
    void *y;
    uint64_t bytes;
    uint32_t rank, buffers;
    int dtype, memory = CPU;
    int64_t memory_id = 0;
    Error *error = TRITONBACKEND_RequestInputByIndex(request, 0, &input);
    if (error == NULL) error = TRITONBACKEND_InputProperties(input, &name, &dtype, &shape, &rank, &bytes, &buffers);
    if (error != NULL) return error;
    if (dtype != FLOAT32 || buffers != 1) return TRITONSERVER_ErrorNew(INVALID, "one buffer of FP32 is needed");
    error = TRITONBACKEND_InputBuffer(input, 0, &x, &bytes, &memory, &memory_id);
    if (error != NULL) return error;
    int64_t rows[2] = {shape[0], 1};
    uint64_t given = linear->width == 0 ? bytes : sizeof(float) * (uint64_t)shape[0];
    error = TRITONBACKEND_ResponseOutput(response, &output, "y", FLOAT32, linear->width == 0 ? shape : rows,
                                         linear->width == 0 ? rank : 2);
    if (error == NULL) error = TRITONBACKEND_OutputBuffer(output, &y, given, &memory, &memory_id);
    if (error == NULL) compute(linear, x, y, bytes / sizeof(float));
    return error;
}

Error *TRITONBACKEND_ModelInstanceExecute(Instance *instance, Request **requests, uint32_t count) {
    Model *model;
    void *linear;
    Error *error = TRITONBACKEND_ModelInstanceModel(instance, &model);
    if (error == NULL) error = TRITONBACKEND_ModelState(model, &linear);
    if (error != NULL) return error;
    for (uint32_t i = 0; i < count; i++) {
        Response *response;
        if (TRITONBACKEND_ResponseNew(&response, requests[i]) == NULL)
            TRITONBACKEND_ResponseSend(response, COMPLETE, answer(linear, requests[i], response));
        TRITONBACKEND_RequestRelease(requests[i], RELEASE_ALL);
    }
    return NULL;
}
